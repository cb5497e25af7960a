package pgtest

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Link is a piece of network before a server that can be made to fail. It
// begins in the state of Pass. Its methods may be called by any goroutine.
type Link struct {
	dsn     string
	network string // of the server
	address string
	listen  net.Listener
	pumps   sync.WaitGroup

	mu    sync.Mutex
	state linkState
	open  map[net.Conn]bool
}

// linkState is what happens to bytes. Each change makes a new one.
type linkState struct {
	requests, answers bool // lost on the way to the server, and from it
	refuse            bool
	delay             time.Duration
	lost              chan struct{} // closed when bytes were lost
	once              *sync.Once
}

// Proxy puts a link before the server of a DSN. It ends with the test.
func Proxy(t testing.TB, dsn string) *Link {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{open: map[net.Conn]bool{}}
	l.network, l.address = pgconn.NetworkAddress(c.Host, c.Port)
	if l.listen, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l.dsn = withAddress(dsn, l.listen.Addr().String())
	l.Pass()
	l.pumps.Go(l.accept)
	t.Cleanup(func() {
		l.Refuse()
		_ = l.listen.Close()
		l.pumps.Wait()
	})
	return l
}

// DSN is the DSN that Proxy got, by way of the link.
func (l *Link) DSN() string { return l.dsn }

// Pass lets everything through. Connections that lost bytes stay dead, as
// those do that a router has forgotten; new ones work.
func (l *Link) Pass() { l.set(linkState{}) }

// Delay delivers everything that much later.
func (l *Link) Delay(d time.Duration) { l.set(linkState{delay: d}) }

// Swallow loses what both sides send from now on, and nobody hears of that:
// connections stay open, new ones are accepted. What returns is closed as soon as
// something was lost.
func (l *Link) Swallow() <-chan struct{} { return l.set(linkState{requests: true, answers: true}) }

// SwallowAnswers loses what the server sends from now on. What returns is
// closed when an answer was lost: the server has done then what it was asked for.
func (l *Link) SwallowAnswers() <-chan struct{} { return l.set(linkState{answers: true}) }

// Cut resets all connections there are; new ones work as before.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

// Refuse is Cut, and resets new connections, too, until Pass.
func (l *Link) Refuse() {
	l.set(linkState{refuse: true})
	l.Cut()
}

func (l *Link) cut() {
	for c := range l.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, which tells that bytes may be lost
		}
		_ = c.Close()
	}
	clear(l.open)
}

func (l *Link) set(s linkState) <-chan struct{} {
	s.lost, s.once = make(chan struct{}), new(sync.Once)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	return s.lost
}

func (l *Link) now() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// accept takes connections until the test ends.
func (l *Link) accept() {
	for {
		client, err := l.listen.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.carry(client) })
	}
}

// carry joins a client with the server.
func (l *Link) carry(client net.Conn) {
	if !l.add(client) {
		return
	}
	server, err := net.DialTimeout(l.network, l.address, callTimeout)
	if err != nil {
		l.remove(client)
		return
	}
	if !l.add(server) {
		l.remove(client)
		return
	}
	back := func(s linkState) bool { return s.answers }
	l.pumps.Go(func() { l.pump(client, server, back) })
	l.pump(server, client, func(s linkState) bool { return s.requests })
}

// add keeps a connection to be cut, or refuses it.
func (l *Link) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = true
	if l.state.refuse {
		l.cut()
		return false
	}
	return true
}

func (l *Link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	_ = c.Close()
}

// pump carries bytes in one direction. The first ones that are lost make it
// lose everything, the end of the connection, too.
func (l *Link) pump(to, from net.Conn, loses func(linkState) bool) {
	buffer := make([]byte, 64<<10)
	dead := false
	for {
		n, err := from.Read(buffer)
		s := l.now()
		dead = dead || loses(s)
		if dead && n > 0 {
			s.once.Do(func() { close(s.lost) })
		}
		if !dead && n > 0 {
			time.Sleep(s.delay)
			_, werr := to.Write(buffer[:n])
			err = errors.Join(err, werr)
		}
		if err != nil {
			l.remove(from)
			if !dead {
				l.remove(to)
			}
			return
		}
	}
}

// withAddress is the URL with another host and port.
func withAddress(dsn, address string) string {
	return change(dsn, func(u *url.URL) {
		u.Host = address
		q := u.Query()
		q.Del("host")
		q.Del("port")
		u.RawQuery = q.Encode()
	})
}
