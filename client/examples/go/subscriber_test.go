package ackgate

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestHandlerErrorsAreVerdicts(t *testing.T) {
	gateway := newGateway(t)
	errs := []error{
		nil, Reject("bad", "no order"), RetryAfter(0, errors.New("busy")), ErrRelease, errors.New("oops"),
	}
	r := start(t, gateway, Options{}, 1, func(_ context.Context, d *Delivery) error {
		if d.Offset == 5 {
			panic("never mind")
		}
		return errs[d.Offset]
	})
	stream, open := gateway.accept(t, settings())
	if !open.GetResumable() || open.GetResume() != nil || open.GetCredit().GetRecords() != 1_000 {
		t.Fatalf("opened with %v", open)
	}
	stream.batch(7, 0, 1, 2, 3, 4, 5)
	got := map[int64]*v1.Verdict{}
	for _, verdict := range stream.verdicts(6) {
		got[verdict.GetFirstOffset()] = verdict
	}
	for offset, want := range []v1.Outcome{
		v1.Outcome_OUTCOME_ACKED, v1.Outcome_OUTCOME_REJECTED, v1.Outcome_OUTCOME_FAILED,
		v1.Outcome_OUTCOME_RELEASED, v1.Outcome_OUTCOME_FAILED, v1.Outcome_OUTCOME_FAILED,
	} {
		if verdict := got[int64(offset)]; verdict.GetOutcome() != want || verdict.GetLane() != 7 || verdict.GetDelivery() != 1 {
			t.Errorf("offset %d: %v", offset, verdict)
		}
	}
	if got[1].GetCode() != "bad" || got[1].GetReason() != "no order" {
		t.Errorf("rejected with %v", got[1])
	}
	if got[2].RetryAfter == nil || got[4].RetryAfter != nil {
		t.Errorf("retry_after: %v, %v", got[2], got[4])
	}
	if got[4].GetCode() != "handler" || got[5].GetCode() != "handler" {
		t.Errorf("codes: %v, %v", got[4], got[5])
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestAcksGoOutAsRanges(t *testing.T) {
	gateway := newGateway(t)
	client, _ := Dial(gateway.address, DialOptions{})
	opening := make(chan *Subscriber)
	go func() {
		subscriber, _ := client.Open(context.Background(), "orders", Options{})
		opening <- subscriber
	}()
	stream, _ := gateway.accept(t, settings())
	subscriber := <-opening
	stream.batch(7, 0, 1, 2, 3, 5, 6)
	var taken []*Delivery
	for range 6 {
		d, err := subscriber.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, d)
	}
	slices.Reverse(taken)
	for _, d := range taken {
		d.Ack()
		d.Reject("late", "the first answer counts")
	}
	var ranges [][2]int64
	for _, verdict := range stream.verdicts(6) {
		if verdict.GetOutcome() != v1.Outcome_OUTCOME_ACKED {
			t.Fatalf("a second answer counted: %v", verdict)
		}
		ranges = append(ranges, [2]int64{verdict.GetFirstOffset(), last(verdict)})
	}
	// A slow machine may take longer for them than they are gathered.
	if want := [][2]int64{{0, 3}, {5, 6}}; !slices.Equal(ranges, want) && len(ranges) > 4 {
		t.Fatalf("acked %v, not %v", ranges, want)
	}
	go stream.goodbye()
	if err := subscriber.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := subscriber.Receive(t.Context()); err != io.EOF {
		t.Fatalf("received %v after the end", err)
	}
}

func TestNoMoreHandlersThanAllowed(t *testing.T) {
	gateway := newGateway(t)
	var now, most atomic.Int32
	var all sync.WaitGroup
	all.Add(40)
	r := start(t, gateway, Options{}, 4, func(context.Context, *Delivery) error {
		defer all.Done()
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	var offsets []int64
	for offset := range int64(40) {
		offsets = append(offsets, offset)
	}
	stream.batch(1, offsets...)
	all.Wait()
	if most.Load() != 4 {
		t.Errorf("%d handlers at a time", most.Load())
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestStopFinishesWhatIsBegunAndGivesBackTheRest(t *testing.T) {
	gateway := newGateway(t)
	begun, finish := make(chan int64, 10), make(chan struct{})
	r := start(t, gateway, Options{}, 2, func(_ context.Context, d *Delivery) error {
		begun <- d.Offset
		<-finish
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.batch(1, 0, 1, 2, 3, 4)
	<-begun
	<-begun
	r.stop()
	var released []*v1.Verdict
	credit := false
	for len(released) == 0 {
		request := stream.receive()
		credit = credit || request.GetCredit() != nil && request.GetCredit().GetRecords() == 0
		released = request.GetSettle().GetVerdicts()
	}
	if !credit {
		t.Error("records were given back before the credit was taken back")
	}
	if len(released) != 1 || released[0].GetFirstOffset() != 2 || last(released[0]) != 4 || released[0].GetOutcome() != v1.Outcome_OUTCOME_RELEASED {
		t.Fatalf("given back: %v", released)
	}
	// What comes now is not begun either.
	stream.batch(1, 5)
	if late := stream.verdicts(1)[0]; late.GetOutcome() != v1.Outcome_OUTCOME_RELEASED {
		t.Fatalf("late record: %v", late)
	}
	close(finish)
	if done := stream.verdicts(2); done[0].GetOutcome() != v1.Outcome_OUTCOME_ACKED {
		t.Fatalf("what was begun: %v", done)
	}
	stream.goodbye()
	wantEnd(t, r, nil)
	stats := r.Stats()
	if stats.Acked != 2 || stats.Released != 4 || stats.Lost != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestRefusalIsATypedError(t *testing.T) {
	gateway := newGateway(t)
	r := start(t, gateway, Options{}, 1, acks)
	stream := gateway.next(t)
	refusal, err := status.New(codes.NotFound, "no such thing").WithDetails(
		&errdetails.ErrorInfo{Reason: "UNKNOWN_SUBSCRIPTION", Domain: "ackgate"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "subscription", Description: "is none"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	stream.ended <- refusal.Err()
	var e *Error
	if err := r.end(t); !errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	if e.Code != codes.NotFound || e.Reason != "UNKNOWN_SUBSCRIPTION" || e.Message != "no such thing; subscription: is none" || e.Temporary() {
		t.Errorf("%+v", e)
	}
}

func TestRetryInfoIsTheLeastWait(t *testing.T) {
	gateway := newGateway(t)
	waits := make(chan time.Duration, 10)
	r := start(t, gateway, Options{Trace: &Trace{Disconnected: func(_ *Error, in time.Duration) { waits <- in }}}, 1, acks)
	later, err := status.New(codes.Unavailable, "not now").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(300 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	gateway.next(t).ended <- later.Err()
	if wait := <-waits; wait < 300*time.Millisecond {
		t.Errorf("again in %v", wait)
	}
	stream, _ := gateway.accept(t, settings())
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestNullAndEmptyDiffer(t *testing.T) {
	gateway := newGateway(t)
	seen := make(chan *Delivery, 2)
	r := start(t, gateway, Options{}, 1, func(_ context.Context, d *Delivery) error {
		seen <- d
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Batch{Batch: &v1.Batch{
		Lane: 1, Topic: "orders", Epoch: 1, Records: []*v1.Record{
			{Offset: 0, Headers: []*v1.Header{{Key: "h"}, {Key: "h", Value: []byte{}}}},
			{Offset: 1, Key: []byte{}, Value: []byte{}},
		},
		Redeliveries: []*v1.Redelivery{{FirstOffset: 1, LastOffset: 1, Attempt: 2, Delivery: 3}},
	}}})
	null, empty := <-seen, <-seen
	if null.Key != nil || null.Value != nil || null.Headers[0].Value != nil {
		t.Errorf("null became %#v", null.Record)
	}
	if empty.Key == nil || empty.Value == nil || null.Headers[1].Value == nil {
		t.Errorf("empty became %#v", empty.Record)
	}
	if null.Attempt != 1 || null.Delivery != 1 || empty.Attempt != 2 || empty.Delivery != 3 {
		t.Errorf("numbers: %+v, %+v", null.Record, empty.Record)
	}
	if last, ok := null.Header("h"); !ok || last == nil {
		t.Error("the last header of a name counts")
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestUntilDrainedEndsWithTheStream(t *testing.T) {
	gateway := newGateway(t)
	r := start(t, gateway, Options{UntilDrained: true}, 1, acks)
	stream, open := gateway.accept(t, settings())
	if !open.GetUntilDrained() {
		t.Error("not asked for")
	}
	stream.batch(1, 0)
	stream.verdicts(1)
	stream.ended <- nil
	wantEnd(t, r, nil)
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	client, err := Dial("127.0.0.1:1", DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []Options{
		{CreditRecords: 1_000_001}, {MaxMessageBytes: 10}, {AckDeadline: time.Millisecond},
		{SubscriberID: "a\nb"}, {BatchLinger: time.Hour}, {FirstBackoff: time.Minute, MaxBackoff: time.Second},
	} {
		var e *Error
		if _, err := client.Open(t.Context(), "orders", options); !errors.As(err, &e) || e.Code != codes.InvalidArgument {
			t.Errorf("%+v: %v", options, err)
		}
	}
	for _, address := range []string{"ftp://host:1", "http://user@host:1", "http://host:1/path", ""} {
		if _, err := Dial(address, DialOptions{}); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
