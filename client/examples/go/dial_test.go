package ackgate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// authority signs certificates for a test.
type authority struct {
	folder string
	key    *ecdsa.PrivateKey
	own    *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{folder: t.TempDir()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.own, _ = x509.ParseCertificate(der)
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sign writes NAME.pem and NAME.key for a server of this DNS name, or a client.
func (a *authority) sign(t *testing.T, name, dns string) {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{dns},
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.own, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	private, _ := x509.MarshalPKCS8PrivateKey(key)
	a.write(t, name+".key", "PRIVATE KEY", private)
}

func TestMutualTLSAndTokenAreShown(t *testing.T) {
	authority := newAuthority(t)
	authority.sign(t, "gateway", "gateway.test")
	authority.sign(t, "me", "me.test")
	pair, err := tls.LoadX509KeyPair(authority.path("gateway.pem"), authority.path("gateway.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.own)
	gateway := newGateway(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	if err := os.WriteFile(authority.path("token"), []byte("  secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := DialOptions{
		TLSCA: authority.path("ca.pem"), TLSCert: authority.path("me.pem"), TLSKey: authority.path("me.key"),
		TLSServerName: "gateway.test", TokenFile: authority.path("token"),
	}
	client, err := Dial("https://"+gateway.address, full)
	if err != nil {
		t.Fatal(err)
	}
	r := startWith(t, client, Options{}, 1, acks)
	stream, _ := gateway.accept(t, settings())
	sent, _ := metadata.FromIncomingContext(stream.stream.Context())
	if got := sent.Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("authorization %q", got)
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)

	for name, change := range map[string]func(*DialOptions){
		"another name":   func(o *DialOptions) { o.TLSServerName = "other.test" },
		"no certificate": func(o *DialOptions) { o.TLSCert, o.TLSKey = "", "" },
		"system's roots": func(o *DialOptions) { o.TLSCA = "" },
		"no TLS":         func(o *DialOptions) { *o = DialOptions{} },
	} {
		options := full
		change(&options)
		address := "https://" + gateway.address
		if name == "no TLS" {
			address = gateway.address
		}
		client, err := Dial(address, options)
		if err != nil {
			t.Fatal(err)
		}
		r := startWith(t, client, Options{MaxRetries: 1}, 1, acks)
		if err := fromStatus(r.end(t)); err.Code != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadFilesAreToldAtOnce(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]DialOptions{
		"TLSCA":                {TLSCA: filepath.Join(folder, "none")},
		"holds no certificate": {TLSCA: empty},
		"both or neither":      {TLSCert: empty},
		"TLSCert, TLSKey":      {TLSCert: empty, TLSKey: empty},
		"TokenFile: " + empty:  {TokenFile: empty},
		"no such file":         {TokenFile: filepath.Join(folder, "none")},
	} {
		if _, err := Dial("127.0.0.1:1", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}
