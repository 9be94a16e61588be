package ackgate

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
)

// mostAddresses is how many gateways a client knows at most.
const mostAddresses = 64

// target is where a gateway is, and how it is reached.
type target struct {
	// address is as it was given, and name what gRPC connects to.
	address, name string
	// secure: with TLS. hasCert: this side shows a certificate then.
	secure, hasCert bool
	transport       grpc.DialOption
}

// gateways are the targets of a subscriber, tried in turn: it has a stream to one of them at
// a time.
type gateways struct {
	every []target
	index atomic.Int32
	// refused counts those in a row where trying again would not help.
	refused int
}

// at returns the one of the moment.
func (g *gateways) at() *target { return &g.every[g.index.Load()] }

// opened notes that a stream is open.
func (g *gateways) opened() { g.refused = 0 }

// leave goes on to the next, as this one does not serve now.
func (g *gateways) leave() {
	g.refused = 0
	g.next()
}

// refuse notes that trying again here would not help. Returns whether it may help elsewhere.
func (g *gateways) refuse() bool {
	g.refused++
	g.next()
	return g.refused < len(g.every)
}

func (g *gateways) next() {
	g.index.Store((g.index.Load() + 1) % int32(len(g.every)))
}

// parseAddress returns what gRPC connects to, and whether with TLS.
func parseAddress(address string, wantsTLS bool) (target string, secure bool, err error) {
	host := address
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			return "", false, err
		}
		if u.User != nil || u.RawQuery != "" || (u.Path != "" && u.Path != "/") {
			return "", false, fmt.Errorf("%q has more than a host and a port", u.Redacted())
		}
		switch u.Scheme {
		case "https":
			secure = true
		case "http":
			secure = wantsTLS
		default:
			return "", false, fmt.Errorf("%q is neither http nor https", u.Scheme)
		}
		host = u.Host
	} else {
		secure = wantsTLS
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
	}
	if name, _, err := net.SplitHostPort(host); err != nil || name == "" {
		return "", false, fmt.Errorf("%q is not HOST:PORT", address)
	}
	return "dns:///" + host, secure, nil
}
