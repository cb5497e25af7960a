package retry

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
)

// Class says what an error proves about the call that returned it.
type Class int

const (
	// None is the class of no error.
	None Class = iota
	// Transient: the call may have reached the other side, and trying again may
	// help. Every error not known to be something else is transient.
	Transient
	// Permanent: trying again can not help, the call itself is wrong.
	Permanent
	// NeverBegan: trying again may help, and the error proves that nothing of
	// the call was sent, so a repeat can not be a second effect.
	NeverBegan
)

// String returns the class in words, for logs.
func (c Class) String() string {
	switch c {
	case None:
		return "none"
	case Permanent:
		return "permanent"
	case NeverBegan:
		return "never began"
	default:
		return "transient"
	}
}

// Classify reads an error of the standard library, wrapped or bare:
//
//   - A connection that could not be made (dial, proxy, a server certificate
//     that does not verify) never began. The proof is about the last connection
//     that was tried: code that makes several calls, or follows redirects, may
//     have sent something before. So may net/http by itself: it repeats a
//     request that was cut off on a reused connection if its method is GET or
//     the like, or if it has an Idempotency-Key. A request with a Body that is
//     neither nil nor http.NoBody, and no GetBody, is not repeated.
//   - An address that can not be parsed, or a network that does not exist, is
//     permanent.
//   - Everything else, such as a timeout, a passed deadline, a cancelled
//     context, a reset connection and an unknown error, is transient.
//
// Of several errors joined into one, a single permanent one makes the whole
// permanent; the whole never began only if that holds for each part.
func Classify(err error) Class {
	if err == nil {
		return None
	}
	switch e := err.(type) {
	case *net.OpError:
		if neverSent(e.Op) {
			return dialClass(e)
		}
	case *tls.CertificateVerificationError:
		// The client checks the certificate before it sends the request.
		return NeverBegan
	case *url.Error:
		if e.Op == "parse" {
			return Permanent
		}
	case url.EscapeError, url.InvalidHostError:
		return Permanent
	case net.UnknownNetworkError, net.InvalidAddrError, *net.AddrError, *net.ParseError:
		return Permanent
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return Classify(inner)
		}
	case interface{ Unwrap() []error }:
		return joined(e.Unwrap())
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return Permanent
	}
	return Transient
}

// neverSent lists the operations of a net.OpError that come before the first
// byte of a request.
func neverSent(op string) bool {
	return op == "dial" || op == "proxyconnect" || op == "socks connect"
}

// dialClass separates an address that can never be dialled from a connection
// that was not made this time.
func dialClass(e *net.OpError) Class {
	if Classify(e.Err) == Permanent {
		return Permanent
	}
	return NeverBegan
}

func joined(errs []error) Class {
	class := NeverBegan
	for _, err := range errs {
		switch Classify(err) {
		case Permanent:
			return Permanent
		case Transient:
			class = Transient
		}
	}
	if len(errs) == 0 {
		return Transient
	}
	return class
}
