package ackgate

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// Header is one header of a record. Names may repeat.
type Header struct {
	Name string
	// Value is nil for Kafka's null; an empty value is empty and not nil.
	Value []byte
}

// TimestampType says what a record's timestamp means.
type TimestampType int

// Whose clock a timestamp is of.
const (
	// NoTimestamp: the record has none.
	NoTimestamp TimestampType = iota
	// CreateTime: the producer's, when it made the record.
	CreateTime
	// LogAppendTime: the broker's, when it appended the record.
	LogAppendTime
)

// Record is one Kafka record.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Key and Value are nil for Kafka's null; an empty one is empty and not nil.
	Key, Value []byte
	// Headers are all of them, in the record's order.
	Headers []Header
	// TimestampMs is in milliseconds since the Unix epoch; 0 if there is none.
	TimestampMs   int64
	TimestampType TimestampType
	// Epoch is the number of the partition's history: a reset starts a new one.
	Epoch uint64
	// Attempt is 1 plus the failed verdicts and expiries so far.
	Attempt uint32
	// Delivery is 1 plus the earlier hand-overs.
	Delivery uint32
}

// Time returns the timestamp; the zero time if there is none.
func (r *Record) Time() time.Time {
	if r.TimestampType == NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(r.TimestampMs)
}

// Header returns the value of the last header of this name, and whether there is one.
func (r *Record) Header(name string) ([]byte, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Name == name {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}

// Delivery is one hand-over of a record. From [Subscriber.Receive] it is to be answered
// with one of its methods, from any goroutine; in a handler the returned error answers it.
// Of several answers the first counts.
type Delivery struct {
	Record
	from *settler
	lane *lane
	// trace is the gateway's own span of the delivery, if there is one.
	trace *TraceContext
	// answered: a verdict was given, and a second one does not count.
	answered atomic.Bool
}

// Ack says that the record is done.
func (d *Delivery) Ack() { d.answer(verdict{outcome: Acked}) }

// AckDurably is Ack; what it returns ends once the verdict survives the loss of the gateway.
// Needs [ConfirmDurable]. The verdict is given at once, whether it is waited for or not.
func (d *Delivery) AckDurably() *Durable { return d.answerDurably(verdict{outcome: Acked}) }

// RejectDurably is Reject and AckDurably: also the dead letter is safe then.
func (d *Delivery) RejectDurably(code, reason string) *Durable {
	return d.answerDurably(rejected(code, reason))
}

// Reject refuses the record for good: it becomes a dead letter now.
func (d *Delivery) Reject(code, reason string) {
	d.answer(rejected(code, reason))
}

// Fail says that it did not work this time: the record comes again after the gateway's
// backoff. Uses an attempt.
func (d *Delivery) Fail(code, reason string) { d.answer(failed(code, reason)) }

// FailAfter is [Delivery.Fail] with a delay, at most an hour, in place of the backoff.
func (d *Delivery) FailAfter(code, reason string, delay time.Duration) {
	d.answer(failed(code, reason).after(delay))
}

// Release gives the record back untouched. Uses no attempt.
func (d *Delivery) Release() { d.answer(verdict{outcome: Released}) }

// Extend says that work goes on: the deadline for the verdict becomes now plus by, above 0
// and at most 10 minutes (more is cut), an hour in total. In a handler this happens by
// itself.
func (d *Delivery) Extend(by time.Duration) { d.from.extend([]run{d.run()}, by) }

func (d *Delivery) answer(v verdict) {
	if !d.answered.Swap(true) {
		d.from.answer(d.run(), v, true)
	}
}

func (d *Delivery) answerDurably(v verdict) *Durable {
	if d.answered.Swap(true) {
		return overDurable("the record was answered before")
	}
	return d.from.answerDurably(d.run(), v)
}

func (d *Delivery) run() run {
	return run{handOver{d.lane, d.Delivery, d.Attempt}, d.Offset, d.Offset}
}

// Batch is records of one partition, in offset order, that came in one message. Answer all
// that is left of it with one of its methods, or its records one by one.
type Batch struct {
	Topic     string
	Partition int32
	Epoch     uint64
	// Deliveries are its records. Offsets may have gaps, which need no verdict.
	Deliveries []*Delivery
}

// AckAll says that all are done.
func (b *Batch) AckAll() { b.answer(verdict{outcome: Acked}) }

// RejectAll refuses all for good.
func (b *Batch) RejectAll(code, reason string) { b.answer(rejected(code, reason)) }

// FailAll fails all; see [Delivery.Fail].
func (b *Batch) FailAll(code, reason string) { b.answer(failed(code, reason)) }

// FailAllAfter fails all; see [Delivery.FailAfter].
func (b *Batch) FailAllAfter(code, reason string, delay time.Duration) {
	b.answer(failed(code, reason).after(delay))
}

// ReleaseAll gives all back untouched.
func (b *Batch) ReleaseAll() { b.answer(verdict{outcome: Released}) }

// Extend asks for more time for all; see [Delivery.Extend].
func (b *Batch) Extend(by time.Duration) {
	if len(b.Deliveries) > 0 {
		b.Deliveries[0].from.extend(runsOf(b.Deliveries), by)
	}
}

func (b *Batch) answer(v verdict) { answerAll(b.Deliveries, v, true) }

// answerAll answers what is not answered. tell: a verdict that comes too late is a problem.
func answerAll(deliveries []*Delivery, v verdict, tell bool) {
	left := slices.DeleteFunc(slices.Clone(deliveries), func(d *Delivery) bool {
		return d.answered.Swap(true)
	})
	for _, r := range runsOf(left) {
		left[0].from.answer(r, v, tell)
	}
}

// runsOf returns the longest runs of records whose offsets follow each other.
func runsOf(deliveries []*Delivery) []run {
	var runs []run
	for _, d := range deliveries {
		next := d.run()
		if n := len(runs); n == 0 || !runs[n-1].join(next) {
			runs = append(runs, next)
		}
	}
	return runs
}

// newBatch reads a message; the lane is the one that it came in.
func newBatch(from *settler, ln *lane, wire *v1.Batch) *Batch {
	batch := &Batch{
		Topic: wire.GetTopic(), Partition: wire.GetPartition(), Epoch: wire.GetEpoch(),
		Deliveries: make([]*Delivery, 0, len(wire.GetRecords())),
	}
	again := slices.SortedFunc(slices.Values(wire.GetRedeliveries()), func(a, b *v1.Redelivery) int {
		return cmp.Compare(a.GetFirstOffset(), b.GetFirstOffset())
	})
	// Few records have one, and usually none.
	traces := make(map[int64]*TraceContext, len(wire.GetTraces()))
	for _, trace := range wire.GetTraces() {
		traces[trace.GetOffset()] = ParseTraceContext(trace.GetTraceparent(), trace.GetTracestate())
	}
	for _, record := range wire.GetRecords() {
		d := &Delivery{from: from, lane: ln, Record: Record{
			Topic: batch.Topic, Partition: batch.Partition, Epoch: batch.Epoch,
			Offset: record.GetOffset(), Key: record.Key, Value: record.Value,
			TimestampMs: record.GetTimestampMs(), TimestampType: timestampType(record),
			Attempt: 1, Delivery: 1,
		}}
		for _, header := range record.GetHeaders() {
			d.Headers = append(d.Headers, Header{Name: header.GetKey(), Value: header.Value})
		}
		for len(again) > 0 && again[0].GetLastOffset() < d.Offset {
			again = again[1:]
		}
		if len(again) > 0 && again[0].GetFirstOffset() <= d.Offset {
			d.Attempt, d.Delivery = again[0].GetAttempt(), again[0].GetDelivery()
		}
		d.trace = traces[d.Offset]
		batch.Deliveries = append(batch.Deliveries, d)
	}
	return batch
}

func timestampType(record *v1.Record) TimestampType {
	switch record.GetTimestampType() {
	case v1.TimestampType_TIMESTAMP_TYPE_CREATE_TIME:
		return CreateTime
	case v1.TimestampType_TIMESTAMP_TYPE_LOG_APPEND_TIME:
		return LogAppendTime
	default:
		return NoTimestamp
	}
}
