package apisim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is an API that listens.
type Server struct {
	// URL is its base address, such as http://127.0.0.1:41234.
	URL string
	// API is the API itself.
	API *API

	http *http.Server
	once sync.Once
	done chan struct{}
	err  error // of serving; read after done
}

// Serve listens on a free port of the loopback interface, until Close or the
// end of ctx.
func Serve(ctx context.Context, config Config) (*Server, error) {
	return Listen(ctx, "127.0.0.1:0", config)
}

// Listen is Serve at an address such as "127.0.0.1:8080".
func Listen(ctx context.Context, address string, config Config) (*Server, error) {
	api, err := New(config)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("apisim: can not listen on %q: %w", address, err)
	}
	s := &Server{
		URL:  "http://" + listener.Addr().String(),
		API:  api,
		http: &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second},
		done: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, s.Close)
	go func() {
		defer close(s.done)
		defer stop()
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("apisim: serving has ended: %w", err)
		}
	}()
	return s, nil
}

// Close stops listening and cuts all connections. It may be called more than
// once; the API's log can still be read.
func (s *Server) Close() {
	s.once.Do(func() {
		_ = s.http.Close() // an error to close a listener that ends anyway tells nothing
		s.API.Close()
	})
	<-s.done
}

// Wait returns when the server has stopped: nil after Close, else the reason.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}
