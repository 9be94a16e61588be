package ackgate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// defaultPort is the gateway's.
const defaultPort = "7654"

// How often a quiet connection is probed, and how long an answer may take.
const (
	keepaliveInterval = 20 * time.Second
	keepaliveTimeout  = 10 * time.Second
)

// DialOptions says how to reach a gateway. The zero value is a plain connection without a
// token.
type DialOptions struct {
	// TLSCA is a file with the certificates, PEM, of authorities to trust in place of the
	// system's.
	TLSCA string
	// TLSCert and TLSKey are files, PEM, with which to show who this is: both or neither.
	TLSCert, TLSKey string
	// TLSServerName is the name that the gateway's certificate must have. Empty: the
	// address's.
	TLSServerName string
	// TokenFile holds the token, which is sent with each call; space around it is not
	// part of it. It is read again for each call. Use it with TLS: without, everybody on
	// the way can read it.
	TokenFile string
	// Extra are given to grpc.NewClient after the package's own.
	Extra []grpc.DialOption
}

// Client knows how to reach a gateway. It keeps no connection open between uses; any
// number of goroutines can use it.
type Client struct {
	targets []target
	options []grpc.DialOption
}

// Dial checks address and options; connections are made when they are needed. The address is
// HOST:PORT, http://HOST:PORT or https://HOST:PORT. TLS is used for https, and for a bare
// HOST:PORT if a TLS option is given; without TLSCA the system's authorities are trusted.
func Dial(address string, options DialOptions) (*Client, error) {
	return DialAny([]string{address}, options)
}

// DialAny is [Dial] for 1 to 64 gateways, tried in turn. A subscriber has a stream to one at a
// time; what is in hand over a lost connection is asked for where it came from, before the
// next one is tried.
func DialAny(addresses []string, options DialOptions) (*Client, error) {
	if len(addresses) < 1 || len(addresses) > mostAddresses {
		return nil, invalid("address: 1 to %d addresses, not %d", mostAddresses, len(addresses))
	}
	targets := make([]target, 0, len(addresses))
	for _, address := range addresses {
		one, err := options.target(address)
		if err != nil {
			return nil, err
		}
		targets = append(targets, one)
	}
	all := []grpc.DialOption{
		grpc.WithUserAgent("ackgate-go"),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveInterval, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
	}
	if options.TokenFile != "" {
		if _, err := readToken(options.TokenFile); err != nil {
			return nil, err
		}
		all = append(all, grpc.WithPerRPCCredentials(tokenFile(options.TokenFile)))
	}
	all = append(all, options.Extra...)
	return &Client{targets: targets, options: all}, nil
}

func (o *DialOptions) target(address string) (target, error) {
	name, secure, err := parseAddress(address, o.usesTLS())
	if err != nil {
		return target{}, invalid("address: %v", err)
	}
	transport := insecure.NewCredentials()
	if secure {
		config, err := o.tlsConfig()
		if err != nil {
			return target{}, err
		}
		transport = credentials.NewTLS(config)
	}
	return target{
		address: address, name: name, secure: secure, hasCert: o.TLSCert != "",
		transport: grpc.WithTransportCredentials(transport),
	}, nil
}

// connect makes a connection of its own: a stream that broke never waits for the backoff
// of a shared one. maxMessage is in bytes.
func (c *Client) connect(to *target, maxMessage int) (*grpc.ClientConn, error) {
	options := append([]grpc.DialOption{
		to.transport, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, c.options...)
	return grpc.NewClient(to.name, options...)
}

func (o *DialOptions) usesTLS() bool {
	return o.TLSCA != "" || o.TLSCert != "" || o.TLSKey != "" || o.TLSServerName != ""
}

func (o *DialOptions) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.TLSServerName}
	if o.TLSCA != "" {
		pem, err := os.ReadFile(o.TLSCA)
		if err != nil {
			return nil, invalid("TLSCA: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("TLSCA: %s holds no certificate", o.TLSCA)
		}
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, invalid("TLSCert and TLSKey: both or neither")
	}
	if o.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return nil, invalid("TLSCert, TLSKey: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// tokenFile sends the token that a file holds.
type tokenFile string

// GetRequestMetadata returns the header that carries the token.
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(string(t))
	if err != nil {
		// It was there at first: as when it is being replaced.
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns false: gateways on loopback take tokens without TLS.
func (t tokenFile) RequireTransportSecurity() bool { return false }

func readToken(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", invalid("TokenFile: %v", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", invalid("TokenFile: %s is empty", file)
	}
	return token, nil
}

func invalid(format string, arguments ...any) *Error {
	return &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}
