package ackgate

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// retriedBy counts the tries that failed and were followed by another.
func retriedBy(options *Options) *atomic.Int32 {
	count := &atomic.Int32{}
	options.Trace = &Trace{Disconnected: func(*Error, time.Duration) { count.Add(1) }}
	return count
}

// endOf runs a subscriber until it ends by itself, with two retries at most.
func endOf(t *testing.T, addresses []string, dial DialOptions) (err *Error, retries int32) {
	t.Helper()
	client, dialError := DialAny(addresses, dial)
	if dialError != nil {
		t.Fatal(dialError)
	}
	options := Options{MaxRetries: 2}
	count := retriedBy(&options)
	if !errors.As(startWith(t, client, options, 1, acks).end(t), &err) {
		t.Fatal("it did not end with an *Error")
	}
	return err, count.Load()
}

// nobody returns an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func tlsGateway(t *testing.T, authority *authority) *fakeGateway {
	t.Helper()
	authority.sign(t, "gateway", "gateway.test")
	pair, err := credentials.NewServerTLSFromFile(authority.path("gateway.pem"), authority.path("gateway.key"))
	if err != nil {
		t.Fatal(err)
	}
	return newGateway(t, grpc.Creds(pair))
}

func TestWhatIsWrongWithTLSIsSaid(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	gateway, plain := tlsGateway(t, own), newGateway(t)
	trusts := DialOptions{TLSCA: own.path("ca.pem"), TLSServerName: "gateway.test"}
	for name, one := range map[string]struct {
		address string
		dial    DialOptions
		want    string
		lasting bool
	}{
		"authority": {"https://" + gateway.address, DialOptions{TLSCA: other.path("ca.pem"), TLSServerName: "gateway.test"}, "no authority that is trusted", true},
		"name":      {"https://" + gateway.address, DialOptions{TLSCA: own.path("ca.pem"), TLSServerName: "else.test"}, "not for this name", true},
		"address":   {"https://" + gateway.address, DialOptions{TLSCA: own.path("ca.pem")}, "not for this name", true},
		"plain":     {"https://" + plain.address, trusts, "does not speak TLS: use http://", true},
		"TLS":       {gateway.address, DialOptions{}, "address begins with https://", false},
		"nobody":    {"https://" + nobody(t), trusts, "refused", false},
	} {
		err, retries := endOf(t, []string{one.address}, one.dial)
		if !strings.Contains(err.Error(), one.want) || err.TLS != one.lasting || err.Temporary() == one.lasting {
			t.Errorf("%s: %v, TLS %v", name, err, err.TLS)
		}
		if one.lasting != (retries == 0) || err.Address != one.address {
			t.Errorf("%s: %d retries, address %q", name, retries, err.Address)
		}
	}
}

func TestExpiredCertificatesAndAlertsAreLasting(t *testing.T) {
	to := &target{address: "a", name: "dns:///a:1", secure: true}
	for words, want := range map[string]string{
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: …": "out of its time",
		"error reading server preface: remote error: tls: certificate required":                   "wants a certificate of this side",
		"remote error: tls: unknown certificate authority":                                        "does not take this side's certificate",
		"remote error: tls: bad certificate":                                                      "does not take this side's certificate",
	} {
		told := to.explain(&Error{Code: codes.Unavailable, Message: words})
		if !told.TLS || !strings.Contains(told.Message, want) {
			t.Errorf("%s: %v", words, told)
		}
	}
	// What the gateway itself says is not guessed at.
	told := to.explain(&Error{Code: codes.Unavailable, Reason: "SHUTTING_DOWN", Message: "EOF"})
	if told.TLS || told.Message != "EOF" {
		t.Errorf("%v", told)
	}
}

func TestPublishingSaysItToo(t *testing.T) {
	own := newAuthority(t)
	gateway := tlsGateway(t, own)
	client, err := Dial("https://"+gateway.address, DialOptions{TLSCA: own.path("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var told *Error
	if _, err := client.PublishBatch(ctx, []Outgoing{{Topic: "orders"}}); !errors.As(err, &told) || !told.TLS {
		t.Errorf("%v", err)
	}
	plain := newGateway(t)
	several, err := DialAny([]string{nobody(t), plain.address}, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if written, err := several.PublishBatch(ctx, []Outgoing{{Topic: "orders", Value: []byte{}}}); err != nil || len(written) != 1 {
		t.Errorf("%v, %v", written, err)
	}
}

// several runs a subscriber on gateways in turn.
func several(t *testing.T, options Options, handler Handler, addresses ...string) *running {
	t.Helper()
	client, err := DialAny(addresses, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, client, options, 1, handler)
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	r := several(t, Options{NotResumable: true}, acks, nobody(t), first.address, second.address)
	stream := first.next(t)
	stream.receive()
	stream.ended <- status.Error(codes.Unavailable, "going")
	stream, _ = second.accept(t, settings())
	stream.batch(7, 0)
	stream.verdicts(1)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
	if r.Address() != second.address {
		t.Errorf("at %s", r.Address())
	}
}

func TestWhatIsInHandIsAskedForWhereItCameFrom(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	begun := make(chan struct{}, 1)
	opened := make(chan struct{}, 2)
	trace := &Trace{Opened: func(string, string, int) { opened <- struct{}{} }}
	r := several(t, Options{ShutdownTimeout: time.Millisecond, Trace: trace}, func(ctx context.Context, _ *Delivery) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ErrRelease
	}, first.address, second.address)
	stream, _ := first.accept(t, settings())
	stream.batch(7, 0)
	<-begun
	stream.ended <- status.Error(codes.Unavailable, "going")
	again := first.next(t)
	if got := again.receive().GetOpen().GetResume().GetToken(); got != "token" {
		t.Errorf("resumes with %q", got)
	}
	// It is not there any more.
	again.ended <- status.Error(codes.Unavailable, "gone")
	stream, _ = second.accept(t, settings())
	<-opened
	<-opened
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestAGatewayThatStopsIsLeftAndAnOldConnectionIsNot(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	r := several(t, Options{}, acks, first.address, second.address)
	for _, one := range []struct {
		at     *fakeGateway
		reason v1.DrainReason
	}{
		{first, v1.DrainReason_DRAIN_REASON_CONNECTION_AGE},
		{first, v1.DrainReason_DRAIN_REASON_GATEWAY_STOPS},
		{second, v1.DrainReason_DRAIN_REASON_GATEWAY_STOPS},
	} {
		stream, _ := one.at.accept(t, settings())
		stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Drain{Drain: &v1.Drain{Reason: one.reason}}})
		stream.goodbye()
	}
	stream, _ := first.accept(t, settings())
	stream.batch(7, 0)
	stream.verdicts(1)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestARefusalEndsItOnceEveryAddressRefuses(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	r := several(t, Options{}, acks, first.address, second.address)
	first.next(t).ended <- status.Error(codes.NotFound, "no such")
	second.next(t).ended <- status.Error(codes.PermissionDenied, "not you")
	var err *Error
	if !errors.As(r.end(t), &err) || err.Code != codes.PermissionDenied || err.Address != second.address {
		t.Errorf("%v", err)
	}
}

func TestASupersededOneDoesNotGoElsewhere(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	r := several(t, Options{}, acks, first.address, second.address)
	stream, _ := first.accept(t, settings())
	ended, _ := status.New(codes.Aborted, "another").WithDetails(&errdetails.ErrorInfo{Reason: superseded})
	stream.ended <- ended.Err()
	var err *Error
	if !errors.As(r.end(t), &err) || err.Reason != superseded {
		t.Errorf("%v", err)
	}
}

func TestBadAddressesAreToldAtOnce(t *testing.T) {
	for _, wrong := range [][]string{nil, {"a:1", "ftp://b"}, make([]string, 65)} {
		if _, err := DialAny(wrong, DialOptions{}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	tries := backoff{first: time.Second, most: time.Hour, addresses: 2}
	for range 4 {
		tries.next(0)
	}
	if got := tries.first << (tries.failures / 2); got != 4*time.Second {
		t.Errorf("the limit is %v", got)
	}
}

func TestAdHocTakesThePlaceOfAName(t *testing.T) {
	adHoc := &AdHoc{Cluster: "main", Topics: []string{"a", "b"}, Group: "nightly"}
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	expect := &SubscriptionOptions{
		Delivery: Broadcast, Order: OrderLane, OnReject: RejectDrops, Start: StartAt(at), MaxAttempts: 3, MinAge: time.Second,
	}
	options, err := Options{AdHoc: adHoc, Expect: expect}.checked("")
	if err != nil {
		t.Fatal(err)
	}
	wire := options.open("")
	asked := wire.GetAdHoc().GetOptions()
	if wire.GetSubscription() != "" || wire.GetExpect() != nil || wire.GetAdHoc().GetGroup() != "nightly" ||
		len(wire.GetAdHoc().GetTopics()) != 2 || wire.GetAdHoc().GetCluster() != "main" {
		t.Errorf("%v", wire)
	}
	if asked.GetDelivery() != 2 || asked.GetOrder() != 3 || asked.GetOnReject() != 2 || asked.GetMaxAttempts() != 3 ||
		asked.MaxDeliveries != nil || !asked.GetStart().GetTimestamp().AsTime().Equal(at) || asked.GetMinAge().AsDuration() != time.Second {
		t.Errorf("%v", asked)
	}
	options, _ = Options{Expect: &SubscriptionOptions{Start: StartEarliest()}}.checked("orders")
	if options.open("orders").GetExpect().GetStart().GetEarliest() == nil {
		t.Error("what is expected is not said")
	}
	for i, wrong := range []Options{
		{AdHoc: &AdHoc{Topics: []string{"a"}, Group: "g"}}, {AdHoc: &AdHoc{Cluster: "main", Group: "g"}},
		{AdHoc: &AdHoc{Cluster: "main", Topics: []string{""}, Group: "g"}}, {AdHoc: &AdHoc{Cluster: "main", Topics: []string{"a"}}},
		{AdHoc: adHoc, Expect: &SubscriptionOptions{MaxAttempts: 1_001}}, {AdHoc: adHoc, Confirm: 7},
	} {
		if _, err := wrong.checked(""); err == nil {
			t.Errorf("%d is taken", i)
		}
	}
	if _, err := (Options{AdHoc: adHoc}).checked("orders"); err == nil {
		t.Error("both a name and AdHoc are taken")
	}
}
