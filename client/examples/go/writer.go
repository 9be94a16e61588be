package ackgate

import (
	"context"
	"slices"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// maxVerdicts is the most verdicts in a message if the gateway does not say.
const maxVerdicts = 10_000

// maxSettleBytes is the largest verdict message: well below the 4 MiB that gRPC servers
// accept by default.
const maxSettleBytes = 1 << 20

// extendBit marks the sequence numbers of extensions, so that their answers are told from
// those to verdicts without remembering each.
const extendBit = 1 << 63

// sender is the writing half of a stream. One goroutine uses it.
type sender interface {
	Send(*v1.SubscribeRequest) error
	CloseSend() error
}

// writer turns what a settler gathers into messages: the only one that sends on its
// session once it is open, independent of the reading half so that neither waits for the
// other.
type writer struct {
	settler *settler
	stream  sender
	// maxVerdicts is the most in one message.
	maxVerdicts int
	// beat is how often to give a sign of life; 0: never.
	beat time.Duration
	// deadline is the time for a verdict, as far as one extension can reach, and extending
	// says whether to extend now.
	deadline  time.Duration
	extending func() bool
	// hurry is how long the goodbye waits for durable confirmations.
	hurry time.Duration
	// sent is told of each verdict that was handed to the stream.
	sent     func(answered)
	sequence uint64
}

// run sends until ctx ends, the stream breaks, or the goodbye is sent.
func (w *writer) run(ctx context.Context) {
	beat := newTicker(w.beat)
	defer beat.Stop()
	extend := newTicker(w.deadline / 3)
	defer extend.Stop()
	flush := time.NewTimer(time.Hour)
	flush.Stop()
	defer flush.Stop()
	waiting := false
	var late <-chan time.Time
	for {
		if late == nil && w.settler.isConfirming() {
			late = time.After(w.hurry)
		}
		something, now := w.settler.readiness()
		if now {
			if !w.flush() {
				return
			}
			waiting = false
			continue
		}
		if something && !waiting {
			flush.Reset(flushInterval)
			waiting = true
		}
		select {
		case <-ctx.Done():
			return
		case <-w.settler.wake:
		case <-flush.C:
			if !w.flush() {
				return
			}
			waiting = false
		case <-late:
			w.settler.hurry()
		case <-beat.C:
			if w.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Beat{Beat: &v1.Beat{}}}) != nil {
				return
			}
		case <-extend.C:
			if w.extending() {
				w.settler.extendAll(w.deadline)
			}
		}
	}
}

// newTicker never ticks for 0.
func newTicker(every time.Duration) *time.Ticker {
	if every <= 0 {
		ticker := time.NewTicker(time.Hour)
		ticker.Stop()
		return ticker
	}
	return time.NewTicker(every)
}

// flush sends what is gathered. Returns whether more can be sent.
func (w *writer) flush() bool {
	taken := w.settler.take()
	if taken.credit != nil {
		message := &v1.Credit{Records: taken.credit.records, Bytes: taken.credit.bytes}
		if w.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Credit{Credit: message}}) != nil {
			w.settler.restore(taken.answers, taken.watchers)
			return false
		}
	}
	// Extensions first: a verdict on the same record would make them late.
	if !w.extend(taken.extensions) {
		w.settler.restore(taken.answers, taken.watchers)
		return false
	}
	if !w.settle(merge(taken.answers), taken.watchers) {
		return false
	}
	if !taken.close {
		return true
	}
	// End of input without it would be a loss.
	if w.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Close{Close: &v1.Close{}}}) == nil {
		_ = w.stream.CloseSend()
	}
	return false
}

// merge joins acks given in any order; other verdicts stay in the order given.
func merge(answers []answered) []answered {
	var acks []run
	var others []answered
	for _, a := range answers {
		if a.outcome == Acked {
			acks = append(acks, a.run)
		} else {
			others = append(others, a)
		}
	}
	merged := make([]answered, 0, len(answers))
	for _, r := range joined(acks) {
		merged = append(merged, answered{r, verdict{outcome: Acked}})
	}
	return append(merged, others...)
}

func (w *writer) extend(extensions map[extended]extension) bool {
	byDuration := map[time.Duration][]run{}
	for at, e := range extensions {
		byDuration[e.by] = append(byDuration[e.by], run{handOver{lane: at.lane}, at.first, e.last})
	}
	for by, runs := range byDuration {
		for part := range slices.Chunk(joined(runs), w.maxVerdicts) {
			w.sequence++
			message := &v1.Extend{Sequence: w.sequence | extendBit, By: durationpb.New(by)}
			for _, r := range part {
				message.Extensions = append(message.Extensions, &v1.Extension{
					Lane: r.lane.id, FirstOffset: r.first, LastOffset: r.lastOffset(),
				})
			}
			if w.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Extend{Extend: message}}) != nil {
				return false
			}
		}
	}
	return true
}

// settle sends verdicts, in as many messages as the limits ask for. What does not get out
// is given back to the settler.
func (w *writer) settle(answers []answered, watchers []watcher) bool {
	all := byRecord(watchers)
	for len(answers) > 0 {
		w.sequence++
		message := &v1.Settle{Sequence: w.sequence}
		for bytes := 0; len(message.Verdicts) < min(len(answers), w.maxVerdicts) && bytes < maxSettleBytes; {
			wire := answers[len(message.Verdicts)].wire()
			message.Verdicts = append(message.Verdicts, wire)
			bytes += proto.Size(wire) + 4
		}
		inside := answers[:len(message.Verdicts)]
		// Before it is sent: the answer may come at once.
		if waiting := watching(inside, all); len(waiting) > 0 {
			w.settler.waiting(w.sequence, waiting)
		}
		if w.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Settle{Settle: message}}) != nil {
			w.settler.waiting(w.sequence, nil)
			w.settler.restore(answers, watching(answers, all))
			return false
		}
		for _, a := range inside {
			w.sent(a)
		}
		answers = answers[len(message.Verdicts):]
	}
	return true
}

func (r run) lastOffset() *int64 {
	if r.last == r.first {
		return nil
	}
	return &r.last
}

func (a answered) wire() *v1.Verdict {
	wire := &v1.Verdict{
		Lane: a.lane.id, FirstOffset: a.first, LastOffset: a.lastOffset(), Delivery: &a.delivery,
		Code: a.code, Reason: a.reason,
	}
	switch a.outcome {
	case Acked:
		wire.Outcome = v1.Outcome_OUTCOME_ACKED
	case Rejected:
		wire.Outcome = v1.Outcome_OUTCOME_REJECTED
	case Failed:
		wire.Outcome = v1.Outcome_OUTCOME_FAILED
		if a.hasRetry {
			wire.RetryAfter = durationpb.New(a.retryAfter)
		}
	case Released:
		wire.Outcome = v1.Outcome_OUTCOME_RELEASED
	}
	return wire
}
