package ackgate

import (
	"context"
	"errors"
	"fmt"

	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// patience is how long a test waits for what is to happen.
const patience = 10 * time.Second

// fakeGateway is a gateway of which a test plays the part, over a real connection.
type fakeGateway struct {
	v1.UnimplementedGatewayServiceServer
	address string
	streams chan *fakeStream
}

// fakeStream is one subscriber's stream, as the gateway sees it.
type fakeStream struct {
	t        *testing.T
	stream   grpc.BidiStreamingServer[v1.SubscribeRequest, v1.SubscribeResponse]
	requests chan *v1.SubscribeRequest
	ended    chan error
}

func (g *fakeGateway) Subscribe(stream grpc.BidiStreamingServer[v1.SubscribeRequest, v1.SubscribeResponse]) error {
	one := &fakeStream{stream: stream, requests: make(chan *v1.SubscribeRequest, 1_000), ended: make(chan error, 1)}
	go func() {
		defer close(one.requests)
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			one.requests <- request
		}
	}()
	select {
	case g.streams <- one:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case err := <-one.ended:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// newGateway serves a fake gateway until the test ends, and sees that nothing is left of the
// client then.
func newGateway(t *testing.T, options ...grpc.ServerOption) *fakeGateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gateway := &fakeGateway{address: listener.Addr().String(), streams: make(chan *fakeStream)}
	server := grpc.NewServer(options...)
	v1.RegisterGatewayServiceServer(server, gateway)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		noGoroutinesLeft(t)
	})
	return gateway
}

// noGoroutinesLeft waits until no goroutine of this package's code is left but the test's.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	var left []string
	eventually(t, func() bool {
		left = left[:0]
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, stack := range strings.Split(string(stacks), "\n\n") {
			if strings.Contains(stack, "ackgate.(*") && !strings.Contains(stack, "testing.tRunner") {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	}, func() string { return "goroutines are left:\n" + strings.Join(left, "\n\n") })
}

func eventually(t *testing.T, holds func() bool, otherwise func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise())
		}
	}
}

// settings are those of a session unless a test says otherwise.
func settings() *v1.Settings {
	return &v1.Settings{
		AckDeadline: durationpb.New(time.Minute), PingInterval: durationpb.New(time.Minute), MaxVerdicts: 10_000,
	}
}

// next waits for a stream.
func (g *fakeGateway) next(t *testing.T) *fakeStream {
	t.Helper()
	select {
	case stream := <-g.streams:
		stream.t = t
		return stream
	case <-time.After(patience):
		t.Fatal("no stream came")
		return nil
	}
}

// accept waits for a stream and opens it with a resume token.
func (g *fakeGateway) accept(t *testing.T, with *v1.Settings, answers ...*v1.ResumeAnswer) (*fakeStream, *v1.Open) {
	t.Helper()
	stream := g.next(t)
	request := stream.receive()
	open := request.GetOpen()
	if open == nil {
		t.Fatalf("the first message is %v", request)
	}
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Opened{Opened: &v1.Opened{
		Session: "s", SubscriberId: "me", ProtocolVersion: 1, Settings: with, ResumeToken: "token", Resumed: answers,
	}}})
	return stream, open
}

func (s *fakeStream) send(response *v1.SubscribeResponse) {
	s.t.Helper()
	if err := s.stream.Send(response); err != nil {
		s.t.Fatal(err)
	}
}

// batch hands out records of partition 0 of `orders`, with values like their offsets.
func (s *fakeStream) batch(lane uint64, offsets ...int64) {
	s.t.Helper()
	batch := &v1.Batch{Lane: lane, Topic: "orders", Epoch: 1}
	for _, offset := range offsets {
		batch.Records = append(batch.Records, &v1.Record{Offset: offset, Value: fmt.Append(nil, offset)})
	}
	s.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Batch{Batch: batch}})
}

// receive waits for the next message.
func (s *fakeStream) receive() *v1.SubscribeRequest {
	s.t.Helper()
	select {
	case request, ok := <-s.requests:
		if !ok {
			s.t.Fatal("the subscriber ended its stream")
		}
		return request
	case <-time.After(patience):
		s.t.Fatal("no message came")
		return nil
	}
}

// verdicts waits for verdicts on so many records, passing over other messages.
func (s *fakeStream) verdicts(records int) []*v1.Verdict {
	s.t.Helper()
	var verdicts []*v1.Verdict
	for records > 0 {
		for _, verdict := range s.receive().GetSettle().GetVerdicts() {
			verdicts = append(verdicts, verdict)
			records -= int(last(verdict) - verdict.GetFirstOffset() + 1)
		}
	}
	if records < 0 {
		s.t.Fatalf("too many verdicts: %v", verdicts)
	}
	return verdicts
}

func last(verdict *v1.Verdict) int64 {
	if verdict.LastOffset == nil {
		return verdict.GetFirstOffset()
	}
	return verdict.GetLastOffset()
}

// goodbye waits for `Close` and ends the stream with OK. It returns what came before.
func (s *fakeStream) goodbye() []*v1.SubscribeRequest {
	s.t.Helper()
	var before []*v1.SubscribeRequest
	for {
		request := s.receive()
		if request.GetClose() != nil {
			s.ended <- nil
			return before
		}
		before = append(before, request)
	}
}

// running is a subscriber whose Run goes on in the background.
type running struct {
	*Subscriber
	cancel context.CancelFunc
	opened chan struct{}
	result chan error
}

// stop asks for a graceful end, once it is open.
func (r *running) stop() {
	select {
	case <-r.opened:
	case <-time.After(patience):
	}
	r.cancel()
}

// start opens a subscriber and runs it. The stream is opened by the test meanwhile.
func start(t *testing.T, gateway *fakeGateway, options Options, concurrency int, handler Handler) *running {
	t.Helper()
	client, err := Dial(gateway.address, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, client, options, concurrency, handler)
}

func startWith(t *testing.T, client *Client, options Options, concurrency int, handler Handler) *running {
	t.Helper()
	if options.FirstBackoff == 0 {
		options.FirstBackoff, options.MaxBackoff = time.Millisecond, 20*time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, opened: make(chan struct{}), result: make(chan error, 1)}
	go func() {
		subscriber, err := client.Open(ctx, "orders", options)
		if err == nil {
			r.Subscriber = subscriber
			close(r.opened)
			err = subscriber.Run(ctx, concurrency, handler)
		}
		r.result <- err
	}()
	t.Cleanup(cancel)
	return r
}

// end waits for Run's result.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(patience):
		t.Fatal("Run did not return")
		return nil
	}
}

func acks(context.Context, *Delivery) error { return nil }

// wantEnd asserts how Run ends.
func wantEnd(t *testing.T, r *running, want error) {
	t.Helper()
	if err := r.end(t); !errors.Is(err, want) {
		t.Fatalf("ended with %v, not %v", err, want)
	}
}
