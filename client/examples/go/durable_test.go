package ackgate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// durables are what handlers got, by offset.
type durables struct {
	mu  sync.Mutex
	got map[int64]*Durable
}

// handler acks durably, and rejects offset 9; without waiting.
func (d *durables) handler(_ context.Context, delivery *Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delivery.Offset == 9 {
		d.got[9] = delivery.RejectDurably("bad", "no good")
	} else {
		d.got[delivery.Offset] = delivery.AckDurably()
	}
	return nil
}

func (d *durables) at(t *testing.T, offset int64) *Durable {
	t.Helper()
	var found *Durable
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		found = d.got[offset]
		return found != nil
	}, func() string { return "the handler was not called" })
	return found
}

// told waits for the end of a wait.
func told(t *testing.T, durable *Durable) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return durable.Wait(ctx)
}

func wantNotDurable(t *testing.T, err error, kind Kind) {
	t.Helper()
	var not *NotDurable
	if !errors.As(err, &not) || not.Kind != kind {
		t.Errorf("%v, not %q", err, kind)
	}
}

func isOpen(durable *Durable) bool {
	select {
	case <-durable.Done():
		return false
	default:
		return true
	}
}

func (s *fakeStream) settle() *v1.Settle {
	s.t.Helper()
	for {
		if settle := s.receive().GetSettle(); settle != nil {
			return settle
		}
	}
}

func (s *fakeStream) settled(sequence uint64, more bool, answers ...*v1.VerdictAnswer) {
	s.t.Helper()
	s.send(&v1.SubscribeResponse{Response: &v1.SubscribeResponse_Settled{Settled: &v1.Settled{
		Sequence: sequence, More: more, Answers: answers,
	}}})
}

func startDurable(t *testing.T, options Options) (*running, *fakeGateway, *fakeStream, *durables) {
	t.Helper()
	gateway, waits := newGateway(t), &durables{got: map[int64]*Durable{}}
	options.Confirm = ConfirmDurable
	r := start(t, gateway, options, 1, waits.handler)
	stream, open := gateway.accept(t, settings())
	if open.GetConfirm() != v1.Confirm_CONFIRM_DURABLE {
		t.Fatalf("opened with %v", open)
	}
	return r, gateway, stream, waits
}

func TestAWaitLastsUntilTheGatewayConfirmsItsOwnMessage(t *testing.T) {
	r, _, stream, waits := startDurable(t, Options{})
	stream.batch(7, 0)
	one := stream.settle()
	stream.batch(7, 9)
	two := stream.settle()
	if one.GetVerdicts()[0].GetOutcome() != v1.Outcome_OUTCOME_ACKED || two.GetVerdicts()[0].GetOutcome() != v1.Outcome_OUTCOME_REJECTED {
		t.Errorf("%v, %v", one, two)
	}
	stream.settled(two.GetSequence(), false)
	if err := told(t, waits.at(t, 9)); err != nil {
		t.Error(err)
	}
	if !isOpen(waits.at(t, 0)) {
		t.Error("nobody has confirmed it")
	}
	stream.settled(one.GetSequence(), false)
	if err := told(t, waits.at(t, 0)); err != nil {
		t.Error(err)
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestAWaitEndsWithTheProblemOfItsRecord(t *testing.T) {
	message := &unconfirmed{watchers: map[place]*Durable{}, failed: map[place]Kind{}}
	all := waits{4: message}
	for offset := range int64(4) {
		message.watchers[place{7, offset}] = newDurable()
	}
	answer := func(lane uint64, first, last int64, result v1.VerdictResult) *v1.VerdictAnswer {
		return &v1.VerdictAnswer{Lane: lane, FirstOffset: first, LastOffset: last, Result: result}
	}
	// An answer in two parts counts as one.
	all.settled(&v1.Settled{Sequence: 4, More: true, Answers: []*v1.VerdictAnswer{
		answer(7, 0, 0, v1.VerdictResult_VERDICT_RESULT_STALE), answer(8, 0, 99, v1.VerdictResult_VERDICT_RESULT_FENCED),
	}})
	if !isOpen(message.watchers[place{7, 0}]) {
		t.Error("more was to follow")
	}
	all.settled(&v1.Settled{Sequence: 4, Answers: []*v1.VerdictAnswer{
		answer(7, 1, 1, v1.VerdictResult_VERDICT_RESULT_DUPLICATE), answer(7, 3, 99, v1.VerdictResult_VERDICT_RESULT_FENCED),
	}})
	wantNotDurable(t, told(t, message.watchers[place{7, 0}]), Stale)
	wantNotDurable(t, told(t, message.watchers[place{7, 3}]), Fenced)
	for _, offset := range []int64{1, 2} {
		if err := told(t, message.watchers[place{7, offset}]); err != nil {
			t.Errorf("%d: %v", offset, err)
		}
	}
	if len(all) != 0 {
		t.Error("it is remembered for ever")
	}
}

func TestAWaitEndsWithTheStream(t *testing.T) {
	r, gateway, stream, waits := startDurable(t, Options{})
	stream.batch(7, 0)
	stream.settle()
	stream.ended <- status.Error(codes.Unavailable, "going")
	wantNotDurable(t, told(t, waits.at(t, 0)), "")
	stream, _ = gateway.accept(t, settings())
	stream.batch(7, 1)
	stream.settled(stream.settle().GetSequence(), false)
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}

func TestWhatWasNotSentIsWaitedForOverAReconnect(t *testing.T) {
	s := newSettler(1_000, true, func(run) {})
	s.begin(nil)
	ln := s.laneOf(7, "orders", 0, 1)
	at := func(offset int64) run { return run{handOver{ln, 1, 1}, offset, offset} }
	s.handed([]run{at(0), at(1)})
	lost, kept := s.answerDurably(at(0), verdict{outcome: Acked}), s.answerDurably(at(1), verdict{outcome: Acked})
	s.end(true)
	s.name()
	s.begin([]*v1.ResumeAnswer{{
		Topic: "orders", FirstOffset: 1, LastOffset: 1, Result: v1.ResumeResult_RESUME_RESULT_KEPT, Lane: 8,
	}})
	wantNotDurable(t, told(t, lost), "")
	taken := s.take()
	waiting := watching(merge(taken.answers), byRecord(taken.watchers))
	if len(waiting) != 1 || waiting[0].lane.id != 8 || waiting[0].first != 1 {
		t.Fatalf("%v", waiting)
	}
	// What does not get out is waited for again.
	s.waiting(1, waiting)
	s.waiting(1, nil)
	s.restore(taken.answers, waiting)
	s.waiting(2, s.take().watchers)
	s.confirmed(&v1.Settled{Sequence: 2})
	if err := told(t, kept); err != nil {
		t.Error(err)
	}
}

func TestTheGoodbyeWaitsForConfirmations(t *testing.T) {
	r, _, stream, waits := startDurable(t, Options{CloseTimeout: patience})
	stream.batch(7, 0)
	settle := stream.settle()
	r.stop()
	for end := time.After(100 * time.Millisecond); end != nil; {
		select {
		case request := <-stream.requests:
			if request.GetCredit() == nil {
				t.Fatalf("it did not wait: %v", request)
			}
		case <-end:
			end = nil
		}
	}
	stream.settled(settle.GetSequence(), false)
	stream.goodbye()
	wantEnd(t, r, nil)
	if err := told(t, waits.at(t, 0)); err != nil {
		t.Error(err)
	}
}

func TestTheGoodbyeDoesNotWaitForEver(t *testing.T) {
	r, _, stream, waits := startDurable(t, Options{CloseTimeout: 500 * time.Millisecond})
	stream.batch(7, 0)
	stream.settle()
	r.stop()
	stream.goodbye()
	r.end(t)
	wantNotDurable(t, told(t, waits.at(t, 0)), "")
}

func TestWithoutTheOptionItIsOverAtOnce(t *testing.T) {
	gateway, words := newGateway(t), make(chan string, 2)
	r := start(t, gateway, Options{}, 1, func(ctx context.Context, d *Delivery) error {
		for range 2 {
			words <- d.AckDurably().Wait(ctx).Error()
		}
		return nil
	})
	stream, _ := gateway.accept(t, settings())
	stream.batch(7, 0)
	if verdict := stream.verdicts(1)[0]; verdict.GetOutcome() != v1.Outcome_OUTCOME_ACKED {
		t.Errorf("%v", verdict)
	}
	for _, want := range []string{"did not ask", "before"} {
		if got := <-words; !strings.Contains(got, want) {
			t.Errorf("%q", got)
		}
	}
	r.stop()
	stream.goodbye()
	wantEnd(t, r, nil)
}
