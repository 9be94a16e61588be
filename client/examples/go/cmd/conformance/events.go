package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"ackgate.dev/ackgate"
)

// maxPrinted is the largest value that is printed, in bytes; of others it is the hash.
const maxPrinted = 1024

// event is one line: names and what they have.
type event map[string]any

// events prints, one line at a time.
type events struct {
	mu  sync.Mutex
	out *json.Encoder
}

func newEvents(out io.Writer) *events {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &events{out: encoder}
}

func (e *events) print(name string, what event) {
	what["event"] = name
	e.mu.Lock()
	defer e.mu.Unlock()
	// Nobody is left to read it: there is nothing else to say it to.
	_ = e.out.Encode(what)
}

func (e *events) trace(verdicts bool) *ackgate.Trace {
	trace := &ackgate.Trace{
		Opened: func(session, subscriberID string, kept int) {
			e.print("opened", event{"session": session, "subscriber_id": subscriberID, "resumed": kept})
		},
		Disconnected: func(err *ackgate.Error, retryIn time.Duration) {
			e.print("disconnected", event{
				"code": err.CodeName(), "reason": err.Reason, "message": err.Message,
				"retry_in_ms": retryIn.Milliseconds(),
			})
		},
		Drained: func(reason string) { e.print("drain", event{"reason": reason}) },
		Problem: func(p ackgate.Problem) {
			e.print("problem", event{
				"topic": p.Topic, "partition": p.Partition, "first_offset": p.FirstOffset,
				"last_offset": p.LastOffset, "kind": p.Kind,
			})
		},
	}
	if verdicts {
		trace.Settled = func(s ackgate.Settled) {
			for offset := s.FirstOffset; offset <= s.LastOffset; offset++ {
				e.print("verdict", event{
					"topic": s.Topic, "partition": s.Partition, "offset": offset,
					"attempt": s.Attempt, "verdict": s.Outcome,
				})
			}
		}
	}
	return trace
}

func (e *events) delivery(d *ackgate.Delivery) {
	headers := make([][2]any, 0, len(d.Headers))
	for _, header := range d.Headers {
		headers = append(headers, [2]any{header.Name, header.Value})
	}
	what := event{
		"topic": d.Topic, "partition": d.Partition, "offset": d.Offset, "attempt": d.Attempt,
		"delivery": d.Delivery, "key": d.Key, "value_bytes": len(d.Value), "headers": headers,
		"timestamp_ms": d.TimestampMs, "traceparent": nil,
	}
	if context := d.TraceContext(); context != nil {
		what["traceparent"] = context.Traceparent
	}
	if len(d.Value) > maxPrinted {
		hash := sha256.Sum256(d.Value)
		what["value_sha256"] = hex.EncodeToString(hash[:])
	} else {
		what["value"] = d.Value
	}
	e.print("delivery", what)
}

func (e *events) batch(b *ackgate.Batch) {
	e.print("batch", event{
		"topic": b.Topic, "partition": b.Partition, "records": len(b.Deliveries),
		"first_offset": b.Deliveries[0].Offset, "last_offset": b.Deliveries[len(b.Deliveries)-1].Offset,
	})
}

func (e *events) closed(s ackgate.Stats) {
	e.print("closed", event{"acked": s.Acked, "rejected": s.Rejected, "failed": s.Failed, "released": s.Released})
}

func (e *events) failed(err error) {
	var known *ackgate.Error
	if !errors.As(err, &known) {
		known = &ackgate.Error{Code: 2, Message: err.Error()}
	}
	e.print("error", event{"code": known.CodeName(), "reason": known.Reason, "message": known.Message})
}
