package ackgate

import (
	"time"
	"unicode/utf8"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// AdHoc is a subscription that the gateway's configuration does not name, where it allows
// such. Subscribers with the same cluster, group and set of topics share it, whatever the
// order.
type AdHoc struct {
	Cluster string
	// Topics are 1 to 100.
	Topics []string
	// Group has 1 to 255 characters.
	Group string
}

// DeliveryMode is how records are spread over subscribers.
type DeliveryMode int32

// The modes. Each record goes to one subscriber, or to every one.
const (
	Competing = DeliveryMode(v1.Delivery_DELIVERY_COMPETING)
	Broadcast = DeliveryMode(v1.Delivery_DELIVERY_BROADCAST)
)

// Order is how records may overtake each other.
type Order int32

// The orders: freely, not of one key, not of one partition.
const (
	OrderNone = Order(v1.Order_ORDER_NONE)
	OrderKey  = Order(v1.Order_ORDER_KEY)
	OrderLane = Order(v1.Order_ORDER_LANE)
)

// OnReject is what happens to rejected and exhausted records.
type OnReject int32

// They are written to the dead-letter topic, dropped, or the lane holds.
const (
	RejectToDeadLetter = OnReject(v1.OnReject_ON_REJECT_DEAD_LETTER)
	RejectDrops        = OnReject(v1.OnReject_ON_REJECT_DROP)
	RejectHolds        = OnReject(v1.OnReject_ON_REJECT_HOLD)
)

// Start is where a group without a committed offset begins; made by the functions below.
type Start struct{ wire *v1.Start }

// StartEarliest begins at the oldest record.
func StartEarliest() Start {
	return Start{&v1.Start{At: &v1.Start_Earliest{Earliest: &v1.StartEarliest{}}}}
}

// StartLatest begins at the end.
func StartLatest() Start {
	return Start{&v1.Start{At: &v1.Start_Latest{Latest: &v1.StartLatest{}}}}
}

// StartAt begins at the first record at or after t.
func StartAt(t time.Time) Start {
	return Start{&v1.Start{At: &v1.Start_Timestamp{Timestamp: timestamppb.New(t)}}}
}

// StartFail begins nowhere: an operator has to commit an offset.
func StartFail() Start {
	return Start{&v1.Start{At: &v1.Start_Fail{Fail: &v1.StartFail{}}}}
}

// SubscriptionOptions are what a subscription is to be like, in the configuration's own terms.
// A zero value asks for nothing. They shape an ad hoc subscription that is opened for the
// first time; of any other the gateway refuses the stream (OPTIONS_CONTRADICT) if it is
// otherwise.
type SubscriptionOptions struct {
	Delivery DeliveryMode
	Order    Order
	Start    Start
	// AckDeadline is 100 ms to 1 h.
	AckDeadline time.Duration
	// MaxAttempts and MaxDeliveries are 1 to 1000.
	MaxAttempts, MaxDeliveries uint32
	OnReject                   OnReject
	DeadLetterTopic            string
	// Filter says what is read at all, in CEL.
	Filter string
	// MinAge holds younger records back, at most 30 days.
	MinAge time.Duration
}

func (a *AdHoc) check() error {
	switch {
	case a == nil:
		return nil
	case a.Cluster == "":
		return invalid("AdHoc: the cluster is missing")
	case len(a.Topics) < 1 || len(a.Topics) > 100:
		return invalid("AdHoc: 1 to 100 topics")
	case a.Group == "" || utf8.RuneCountInString(a.Group) > 255:
		return invalid("AdHoc: a group has 1 to 255 characters")
	}
	for _, topic := range a.Topics {
		if topic == "" {
			return invalid("AdHoc: a topic has a name")
		}
	}
	return nil
}

func (o *SubscriptionOptions) check() error {
	switch {
	case o == nil:
		return nil
	case o.AckDeadline != 0 && (o.AckDeadline < 100*time.Millisecond || o.AckDeadline > time.Hour):
		return invalid("Expect.AckDeadline: 100 ms to 1 h")
	case o.MaxAttempts > 1_000 || o.MaxDeliveries > 1_000:
		return invalid("Expect: 1 to 1000 attempts and deliveries")
	case len(o.Filter) > 4_096:
		return invalid("Expect.Filter: at most 4,096 bytes")
	case o.MinAge < 0 || o.MinAge > 30*24*time.Hour:
		return invalid("Expect.MinAge: 0 to 30 days")
	}
	return nil
}

func (o *SubscriptionOptions) wire() *v1.SubscriptionOptions {
	if o == nil {
		return nil
	}
	wire := &v1.SubscriptionOptions{
		Delivery: v1.Delivery(o.Delivery), Order: v1.Order(o.Order), Start: o.Start.wire,
		OnReject: v1.OnReject(o.OnReject),
	}
	if o.AckDeadline != 0 {
		wire.AckDeadline = durationpb.New(o.AckDeadline)
	}
	if o.MaxAttempts != 0 {
		wire.MaxAttempts = proto.Uint32(o.MaxAttempts)
	}
	if o.MaxDeliveries != 0 {
		wire.MaxDeliveries = proto.Uint32(o.MaxDeliveries)
	}
	if o.DeadLetterTopic != "" {
		wire.DeadLetterTopic = proto.String(o.DeadLetterTopic)
	}
	if o.Filter != "" {
		wire.Filter = proto.String(o.Filter)
	}
	if o.MinAge != 0 {
		wire.MinAge = durationpb.New(o.MinAge)
	}
	return wire
}
