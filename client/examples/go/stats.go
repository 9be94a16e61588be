package ackgate

import (
	"sync/atomic"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// Kind says what became of a verdict that changed nothing.
type Kind string

// The kinds.
const (
	// Duplicate: the same verdict was already applied.
	Duplicate Kind = "duplicate"
	// Conflict: another verdict was applied before.
	Conflict Kind = "conflict"
	// Stale: the delivery has been superseded by a later one.
	Stale Kind = "stale"
	// Fenced: the partition is no longer the gateway's or this subscriber's.
	Fenced Kind = "fenced"
	// Unknown: the offset was not delivered to this subscriber.
	Unknown Kind = "unknown"
	// Expired: the deadline passed and the record has been handed out again.
	Expired Kind = "expired"
	// Invalid: the verdict is malformed; the detail says how.
	Invalid Kind = "invalid"
	// Lost: the delivery was not kept over a reconnect, or its time was over on this side;
	// the verdict was not sent, and the record comes again.
	Lost Kind = "lost"
	// Other: a kind that this version does not know.
	Other Kind = "other"
)

// Problem is a verdict that changed nothing.
type Problem struct {
	// Topic and Partition are empty and -1 if the lane is not remembered.
	Topic     string
	Partition int32
	// FirstOffset and LastOffset are the records concerned, both included.
	FirstOffset, LastOffset int64
	Kind                    Kind
	// Detail is a stable code, for Invalid.
	Detail string
}

func kindOf(result v1.VerdictResult) Kind {
	switch result {
	case v1.VerdictResult_VERDICT_RESULT_DUPLICATE:
		return Duplicate
	case v1.VerdictResult_VERDICT_RESULT_CONFLICT:
		return Conflict
	case v1.VerdictResult_VERDICT_RESULT_STALE:
		return Stale
	case v1.VerdictResult_VERDICT_RESULT_FENCED:
		return Fenced
	case v1.VerdictResult_VERDICT_RESULT_UNKNOWN:
		return Unknown
	case v1.VerdictResult_VERDICT_RESULT_EXPIRED:
		return Expired
	case v1.VerdictResult_VERDICT_RESULT_INVALID:
		return Invalid
	default:
		return Other
	}
}

// Stats are counts since the subscriber was opened, over all its sessions.
type Stats struct {
	// Records and Batches received, redeliveries included.
	Records, Batches uint64
	// Acked, Rejected, Failed and Released are records whose verdict was handed to the stream.
	Acked, Rejected, Failed, Released uint64
	// Lost are records whose verdict was not sent, since the gateway hands them out again.
	Lost uint64
	// Problems are records whose verdict the gateway says changed nothing.
	Problems uint64
	// Discarded are records that were received and never begun, as their session ended.
	Discarded uint64
	// Refused are records for which the gateway gave no more time.
	Refused uint64
	// Reconnects are sessions after the first one.
	Reconnects uint64
}

// counters are the living Stats.
type counters struct {
	records, batches, acked, rejected, failed, released atomic.Uint64
	lost, problems, discarded, refused, sessions        atomic.Uint64
}

func (c *counters) of(outcome Outcome) *atomic.Uint64 {
	switch outcome {
	case Acked:
		return &c.acked
	case Rejected:
		return &c.rejected
	case Failed:
		return &c.failed
	default:
		return &c.released
	}
}

func (c *counters) snapshot() Stats {
	reconnects := c.sessions.Load()
	if reconnects > 0 {
		reconnects--
	}
	return Stats{
		Records: c.records.Load(), Batches: c.batches.Load(), Acked: c.acked.Load(),
		Rejected: c.rejected.Load(), Failed: c.failed.Load(), Released: c.released.Load(),
		Lost: c.lost.Load(), Problems: c.problems.Load(), Discarded: c.discarded.Load(),
		Refused: c.refused.Load(), Reconnects: reconnects,
	}
}
