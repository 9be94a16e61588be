package ackgate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
)

// problems collects those that a subscriber is told.
type problems struct {
	mu  sync.Mutex
	all []Problem
}

func (p *problems) note(one Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
}

func (p *problems) snapshot() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

func answer(first, last int64, result v1.ResumeResult, lane uint64) *v1.ResumeAnswer {
	return &v1.ResumeAnswer{Topic: "orders", FirstOffset: first, LastOffset: last, Result: result, Lane: lane}
}

// Of six records, three of which are begun, the stream breaks: one that is begun is kept, one
// has its verdict, one is lost; of the others one is kept.
func TestBrokenStreamIsGoneOnWith(t *testing.T) {
	gateway := newGateway(t)
	begun, finish := make(chan int64, 10), make(chan struct{})
	var told problems
	opened := make(chan int, 2)
	r := start(t, gateway, Options{Trace: &Trace{
		Problem: told.note, Opened: func(_, _ string, kept int) { opened <- kept },
	}}, 3, func(_ context.Context, d *Delivery) error {
		begun <- d.Offset
		if d.Offset < 3 {
			<-finish
		}
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.batch(7, 0, 1, 2, 3, 4, 5)
	for range 3 {
		<-begun
	}
	stream.ended <- status.Error(codes.Unavailable, "the line is cut")
	stream, open := gateway.accept(t, settings(),
		answer(0, 0, v1.ResumeResult_RESUME_RESULT_KEPT, 9),
		answer(1, 1, v1.ResumeResult_RESUME_RESULT_SETTLED, 0),
		answer(2, 2, v1.ResumeResult_RESUME_RESULT_LOST, 0),
		answer(4, 4, v1.ResumeResult_RESUME_RESULT_KEPT, 9))
	resume := open.GetResume()
	if resume.GetToken() != "token" || open.GetSubscriberId() != "me" || len(resume.GetHeld()) != 1 {
		t.Fatalf("resumed with %v", open)
	}
	if held := resume.GetHeld()[0]; held.GetTopic() != "orders" || held.GetEpoch() != 1 || held.GetFirstOffset() != 0 || held.GetLastOffset() != 5 || held.GetDelivery() != 1 {
		t.Fatalf("held %v", held)
	}
	// Another lane that has the number which the old one had.
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Batch{Batch: &v1.Batch{
		Lane: 7, Topic: "others", Epoch: 1, Records: []*v1.Record{{Offset: 2}},
	}}})
	if first, second := <-opened, <-opened; first != 0 || second != 2 {
		t.Errorf("kept %d, then %d runs", first, second)
	}
	close(finish)
	verdicts := stream.verdicts(3)
	var answered []string
	for _, verdict := range verdicts {
		for offset := verdict.GetFirstOffset(); offset <= last(verdict); offset++ {
			answered = append(answered, fmt.Sprint(verdict.GetLane(), "/", offset))
		}
	}
	slices.Sort(answered)
	if want := []string{"7/2", "9/0", "9/4"}; !slices.Equal(answered, want) {
		t.Fatalf("answered %v, not %v", answered, want)
	}
	// The handlers of what is settled and of what is lost are told that they came too late.
	eventually(t, func() bool { return len(told.snapshot()) == 2 }, func() string { return fmt.Sprint(told.snapshot()) })
	for _, problem := range told.snapshot() {
		if problem.Kind != Lost || problem.Topic != "orders" || (problem.FirstOffset != 1 && problem.FirstOffset != 2) {
			t.Errorf("%+v", problem)
		}
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestVerdictsGivenBetweenSessionsAreSentInTheNext(t *testing.T) {
	gateway := newGateway(t)
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	away := make(chan struct{}, 10)
	var told problems
	r := start(t, gateway, Options{
		FirstBackoff: 500 * time.Millisecond, MaxBackoff: 500 * time.Millisecond,
		Trace: &Trace{Problem: told.note, Disconnected: func(*Error, time.Duration) { away <- struct{}{} }},
	}, 2, func(context.Context, *Delivery) error {
		begun <- struct{}{}
		<-finish
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.batch(7, 0, 1)
	<-begun
	<-begun
	stream.ended <- status.Error(codes.Unavailable, "the line is cut")
	<-away
	close(finish)
	next := gateway.next(t)
	if held := next.receive().GetOpen().GetResume().GetHeld(); len(held) != 1 || held[0].GetLastOffset() != 1 {
		t.Fatalf("held %v", held)
	}
	next.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Opened{Opened: &v1.Opened{
		Session: "t", SubscriberId: "me", Settings: settings(), ResumeToken: "other",
		Resumed: []*v1.ResumeAnswer{answer(0, 0, v1.ResumeResult_RESUME_RESULT_KEPT, 3)},
	}}})
	if verdict := next.verdicts(1)[0]; verdict.GetLane() != 3 || verdict.GetOutcome() != v1.Outcome_OUTCOME_ACKED {
		t.Fatalf("%v", verdict)
	}
	want := Problem{Topic: "orders", FirstOffset: 1, LastOffset: 1, Kind: Lost}
	eventually(t, func() bool { return slices.Equal(told.snapshot(), []Problem{want}) }, func() string { return fmt.Sprint(told.snapshot()) })
	r.stop()
	next.goodbye()
	wantEnd(t, r, nil)
}

func TestDrainFinishesAndConnectsAgain(t *testing.T) {
	gateway := newGateway(t)
	begun, finish := make(chan struct{}, 1), make(chan struct{})
	reason := make(chan string, 1)
	r := start(t, gateway, Options{Trace: &Trace{Drained: func(why string) { reason <- why }}}, 1, func(_ context.Context, d *Delivery) error {
		begun <- struct{}{}
		<-finish
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.batch(7, 0)
	<-begun
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Drain{Drain: &v1.Drain{
		Reason: v1.DrainReason_DRAIN_REASON_CONNECTION_AGE,
	}}})
	if why := <-reason; why != "CONNECTION_AGE" {
		t.Errorf("drained for %q", why)
	}
	select {
	case request := <-stream.requests:
		t.Fatalf("%v while work goes on", request)
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	stream.verdicts(1)
	stream.goodbye()
	stream, open := gateway.accept(t, settings())
	if open.GetResume() != nil {
		t.Errorf("nothing was left to go on with: %v", open)
	}
	// The goodbye was for the first stream alone.
	stream.batch(1, 1)
	stream.verdicts(1)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestSilentGatewayIsLeft(t *testing.T) {
	gateway := newGateway(t)
	lost := make(chan *Error, 10)
	r := start(t, gateway, Options{Trace: &Trace{Disconnected: func(err *Error, _ time.Duration) { lost <- err }}}, 1, acks)
	quiet := settings()
	quiet.PingInterval = durationpb.New(500 * time.Millisecond)
	stream, _ := gateway.accept(t, quiet)
	// Signs of life keep it, for longer than the silence that ends it.
	for range 6 {
		time.Sleep(250 * time.Millisecond)
		stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Ping{Ping: &v1.Ping{}}})
	}
	if len(lost) > 0 {
		t.Fatalf("lost by %v although it pinged", <-lost)
	}
	stream, _ = gateway.accept(t, settings())
	if err := <-lost; err.Code != codes.Unavailable {
		t.Errorf("%v", err)
	}
	stream.batch(1, 0)
	stream.verdicts(1)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestBeatIsSentOnAQuietStream(t *testing.T) {
	gateway := newGateway(t)
	r := start(t, gateway, Options{}, 1, acks)
	leased := settings()
	leased.LeaseBeat = durationpb.New(20 * time.Millisecond)
	stream, _ := gateway.accept(t, leased)
	for range 3 {
		if request := stream.receive(); request.GetBeat() == nil {
			t.Fatalf("%v", request)
		}
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

// What is in hand is extended, begun or not, until the gateway refuses; then it is not asked
// again.
func TestDeadlinesAreExtendedWhileInHand(t *testing.T) {
	gateway := newGateway(t)
	finish := make(chan struct{})
	r := start(t, gateway, Options{}, 1, func(context.Context, *Delivery) error {
		<-finish
		return nil
	})
	short := settings()
	short.AckDeadline = durationpb.New(150 * time.Millisecond)
	stream, _ := gateway.accept(t, short)
	stream.batch(7, 0, 1, 2)
	for range 3 {
		extend := stream.receive().GetExtend()
		if extend.GetBy().AsDuration() != 150*time.Millisecond || len(extend.GetExtensions()) != 1 ||
			extend.GetExtensions()[0].GetFirstOffset() != 0 || extend.GetExtensions()[0].GetLastOffset() != 2 {
			t.Fatalf("%v", extend)
		}
		if extend.GetSequence()&extendBit == 0 {
			t.Errorf("sequence %d", extend.GetSequence())
		}
	}
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Settled{Settled: &v1.Settled{
		Sequence: extendBit | 1,
		Answers:  []*v1.VerdictAnswer{{Lane: 7, FirstOffset: 1, LastOffset: 2, Result: v1.VerdictResult_VERDICT_RESULT_EXPIRED}},
	}}})
	eventually(t, func() bool {
		for _, one := range stream.receive().GetExtend().GetExtensions() {
			if one.LastOffset == nil {
				return true
			}
		}
		return false
	}, func() string { return "it asks again for what was refused" })
	close(finish)
	stream.verdicts(3)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
	if stats := r.Stats(); stats.Refused != 2 || stats.Problems != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestVerdictThatChangedNothingIsTold(t *testing.T) {
	gateway := newGateway(t)
	var told problems
	r := start(t, gateway, Options{Trace: &Trace{Problem: told.note}}, 1, acks)
	stream, _ := gateway.accept(t, settings())
	stream.batch(7, 0, 1)
	stream.verdicts(2)
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Settled{Settled: &v1.Settled{
		Sequence: 1,
		Answers:  []*v1.VerdictAnswer{{Lane: 7, FirstOffset: 0, LastOffset: 1, Result: v1.VerdictResult_VERDICT_RESULT_STALE}},
	}}})
	want := Problem{Topic: "orders", FirstOffset: 0, LastOffset: 1, Kind: Stale}
	eventually(t, func() bool { return slices.Equal(told.snapshot(), []Problem{want}) }, func() string { return fmt.Sprint(told.snapshot()) })
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestMessagesOfALaterProtocolArePassedOver(t *testing.T) {
	gateway := newGateway(t)
	r := start(t, gateway, Options{}, 1, acks)
	stream, _ := gateway.accept(t, settings())
	unknown := &v1.SubscribeResponse{}
	unknown.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), "new"))
	stream.send(unknown)
	stream.batch(7, 0)
	stream.verdicts(1)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestNoMoreVerdictsInAMessageThanTheGatewayTakes(t *testing.T) {
	gateway := newGateway(t)
	few := settings()
	few.MaxVerdicts = 2
	release := make(chan struct{})
	r := start(t, gateway, Options{}, 10, func(_ context.Context, d *Delivery) error {
		<-release
		return Reject(fmt.Sprint(d.Offset), "each of its own")
	})
	stream, _ := gateway.accept(t, few)
	stream.batch(7, 0, 1, 2, 3, 4)
	close(release)
	for got := 0; got < 5; {
		settle := stream.receive().GetSettle()
		if n := len(settle.GetVerdicts()); n > 2 {
			t.Fatalf("%d verdicts in a message", n)
		}
		got += len(settle.GetVerdicts())
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestGoodbyeThatIsNotAnsweredIsAnError(t *testing.T) {
	gateway := newGateway(t)
	r := start(t, gateway, Options{CloseTimeout: 50 * time.Millisecond}, 1, acks)
	gateway.accept(t, settings())
	r.stop()
	if err := fromStatus(r.end(t)); err.Code != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}
