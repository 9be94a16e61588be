package ackgate

import (
	"strings"
	"time"
	"unicode"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/protobuf/types/known/durationpb"
)

const gib = 1 << 30

// Options shape a subscriber. The zero value of each field is its default.
type Options struct {
	// SubscriberID is the subscriber's own name, which appears in dead letters and logs:
	// at most 256 bytes without control characters. Empty: the gateway makes one.
	SubscriberID string
	// CreditRecords and CreditBytes are the most that may be out to this subscriber at any
	// time, begun or not: up to 1,000,000 records (default 1,000) and 1 GiB (default
	// 16 MiB). They bound its memory.
	CreditRecords uint32
	CreditBytes   uint64
	// MaxMessageBytes is the largest message accepted: 4,096 bytes to 1 GiB, default
	// 4 MiB. A larger record goes to another subscriber or takes the route of rejected ones.
	MaxMessageBytes uint64
	// AckDeadline is the time for a verdict on each delivery, 100 ms to 1 h. Default: the
	// subscription's own. Run extends it by itself.
	AckDeadline time.Duration
	// Filter says which records are expected, as the protocol has it at Open.filter.
	Filter string
	// UntilDrained ends the stream once all that there is has been read and answered.
	UntilDrained bool
	// NotResumable gives what is in hand to others at once if the connection is lost.
	NotResumable bool
	// Takeover takes the place of another stream of the same SubscriberID at the first
	// opening.
	Takeover bool
	// BatchRecords and BatchLinger ask for batches: most records, up to 10,000, and how
	// long the first may wait for others, up to a minute. Default: as the subscription has it.
	BatchRecords uint32
	BatchLinger  time.Duration
	// OpenTimeout is how long connecting and opening the stream may take. Default 10 s.
	OpenTimeout time.Duration
	// ShutdownTimeout is how long Run waits for handlers at its end. Default 10 s.
	ShutdownTimeout time.Duration
	// CloseTimeout is how long the gateway has to answer the goodbye. Default 5 s.
	CloseTimeout time.Duration
	// FirstBackoff and MaxBackoff limit the random delays between tries to connect: the
	// first is up to 250 ms by default, the limit doubles, up to 30 s by default.
	FirstBackoff, MaxBackoff time.Duration
	// MaxRetries is how many tries in a row may fail. Default: any number.
	MaxRetries int
	// AdHoc opens a subscription that the configuration does not name, in place of a named
	// one: the name given to Open is to be empty then.
	AdHoc *AdHoc
	// Expect is what the subscription is to be like. May be nil.
	Expect *SubscriptionOptions
	// Confirm is which answers to verdicts are wanted.
	Confirm Confirm
	// Trace is told what happens. May be nil.
	Trace *Trace
}

// Confirm is which answers to verdicts the gateway is asked for.
type Confirm int32

// The answers.
const (
	// ConfirmProblems: only of verdicts that changed nothing.
	ConfirmProblems = Confirm(v1.Confirm_CONFIRM_UNSPECIFIED)
	// ConfirmApplied: of every message, once its verdicts are applied.
	ConfirmApplied = Confirm(v1.Confirm_CONFIRM_APPLIED)
	// ConfirmDurable: of every message, once what it did survives the loss of the gateway,
	// for [Delivery.AckDurably]. Each asks for a commit.
	ConfirmDurable = Confirm(v1.Confirm_CONFIRM_DURABLE)
)

// flushInterval and flushRecords are how long verdicts are gathered into one message.
const (
	flushInterval = 5 * time.Millisecond
	flushRecords  = 1_000
)

// Trace is told what happens to a subscriber; fields may be nil. The functions are called
// by the goroutines that keep the stream, so they must be quick and must not call the
// subscriber's methods that wait.
type Trace struct {
	// Opened: a stream is open. kept is how many runs of records in hand were kept.
	Opened func(session, subscriberID string, kept int)
	// Disconnected: the stream was lost, or could not be opened, and is tried again in a while.
	Disconnected func(err *Error, retryIn time.Duration)
	// Drained: the gateway ends the stream soon, as it stops (GATEWAY_STOPS) or as the
	// connection is old (CONNECTION_AGE); the subscriber finishes what it has and connects
	// again.
	Drained func(reason string)
	// Problem: a verdict changed nothing.
	Problem func(Problem)
	// Settled: a verdict on records that follow each other was handed to the stream.
	Settled func(Settled)
}

// Settled is a verdict that was handed to the stream.
type Settled struct {
	Topic     string
	Partition int32
	// FirstOffset and LastOffset are the records concerned, both included.
	FirstOffset, LastOffset int64
	Attempt, Delivery       uint32
	Outcome                 Outcome
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// checked fills in the defaults and returns what is out of range.
func (o Options) checked(subscription string) (Options, error) {
	orDefault(&o.CreditRecords, 1_000)
	orDefault(&o.CreditBytes, 16<<20)
	orDefault(&o.MaxMessageBytes, 4<<20)
	orDefault(&o.OpenTimeout, 10*time.Second)
	orDefault(&o.ShutdownTimeout, 10*time.Second)
	orDefault(&o.CloseTimeout, 5*time.Second)
	orDefault(&o.FirstBackoff, 250*time.Millisecond)
	orDefault(&o.MaxBackoff, 30*time.Second)
	orDefault(&o.Trace, &Trace{})
	switch {
	case subscription == "" && o.AdHoc == nil:
		return o, invalid("subscription: must not be empty")
	case subscription != "" && o.AdHoc != nil:
		return o, invalid("subscription: either a name or AdHoc")
	case o.Confirm < ConfirmProblems || o.Confirm > ConfirmDurable:
		return o, invalid("Confirm: no such answers")
	case len(o.SubscriberID) > 256 || strings.ContainsFunc(o.SubscriberID, unicode.IsControl):
		return o, invalid("SubscriberID: at most 256 bytes without control characters")
	case o.CreditRecords > 1_000_000 || o.CreditBytes > gib:
		return o, invalid("credit: at most 1,000,000 records and 1 GiB")
	case o.MaxMessageBytes < 4_096 || o.MaxMessageBytes > gib:
		return o, invalid("MaxMessageBytes: 4,096 bytes to 1 GiB")
	case o.AckDeadline != 0 && (o.AckDeadline < 100*time.Millisecond || o.AckDeadline > time.Hour):
		return o, invalid("AckDeadline: 100 ms to 1 h")
	case len(o.Filter) > 4_096:
		return o, invalid("Filter: at most 4,096 bytes")
	case o.BatchRecords > 10_000 || o.BatchLinger < 0 || o.BatchLinger > time.Minute:
		return o, invalid("batches: at most 10,000 records, a linger of at most 1 min")
	case o.FirstBackoff < 0 || o.FirstBackoff > o.MaxBackoff:
		return o, invalid("backoff: the first delay must not be above the longest")
	case o.OpenTimeout < 0 || o.ShutdownTimeout < 0 || o.CloseTimeout < 0 || o.MaxRetries < 0:
		return o, invalid("timeouts and MaxRetries: not below 0")
	}
	if err := o.AdHoc.check(); err != nil {
		return o, err
	}
	return o, o.Expect.check()
}

// open makes the first message of a session that goes on with nothing.
func (o *Options) open(subscription string) *v1.Open {
	message := &v1.Open{
		Subscription:    subscription,
		SubscriberId:    o.SubscriberID,
		Credit:          &v1.Credit{Records: o.CreditRecords, Bytes: o.CreditBytes},
		MaxMessageBytes: o.MaxMessageBytes,
		Resumable:       !o.NotResumable,
		UntilDrained:    o.UntilDrained,
		Filter:          o.Filter,
		Confirm:         v1.Confirm(o.Confirm),
	}
	if o.AdHoc != nil {
		message.AdHoc = &v1.AdHoc{
			Cluster: o.AdHoc.Cluster, Topics: o.AdHoc.Topics, Group: o.AdHoc.Group, Options: o.Expect.wire(),
		}
	} else {
		message.Expect = o.Expect.wire()
	}
	if o.AckDeadline != 0 {
		message.AckDeadline = durationpb.New(o.AckDeadline)
	}
	if o.BatchRecords != 0 || o.BatchLinger != 0 {
		message.Batch = &v1.BatchOptions{MaxRecords: o.BatchRecords}
		if o.BatchLinger != 0 {
			message.Batch.Linger = durationpb.New(o.BatchLinger)
		}
	}
	return message
}
