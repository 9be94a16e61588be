package ackgate

import (
	"cmp"
	"slices"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// mostHeld is the most runs that a gateway takes. What is beyond is delivered again.
const mostHeld = 10_000

// partition is a topic's partition, in either epoch.
type partition struct {
	topic  string
	number int32
}

func (l *lane) partitionOf() partition { return partition{l.topic, l.partition} }

// manifest picks what is named to the gateway. Of two deliveries of one record it is the
// later one: the earlier is over.
func manifest(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(
			cmp.Compare(b.delivery, a.delivery), cmp.Compare(a.lane.topic, b.lane.topic),
			cmp.Compare(a.lane.partition, b.lane.partition), cmp.Compare(a.first, b.first),
		)
	})
	// What is named already, whatever its numbers.
	names := map[partition]held{}
	var named []run
	for _, r := range runs {
		taken, ok := names[r.lane.partitionOf()]
		if !ok {
			taken = held{}
			names[r.lane.partitionOf()] = taken
		}
		anonymous := run{handOver{}, r.first, r.last}
		for _, part := range taken.missing(anonymous) {
			named = append(named, r.part(part.first, part.last))
		}
		taken.insert(anonymous)
		if len(named) >= mostHeld {
			return named[:mostHeld]
		}
	}
	return named
}

func heldToWire(runs []run) []*v1.Held {
	wire := make([]*v1.Held, 0, len(runs))
	for _, r := range runs {
		wire = append(wire, &v1.Held{
			Topic: r.lane.topic, Partition: r.lane.partition, Epoch: r.lane.epoch,
			FirstOffset: r.first, LastOffset: r.last, Delivery: &r.delivery,
		})
	}
	return wire
}

// fates is what the gateway kept of a manifest, and what has its verdict; all else is lost.
type fates struct {
	kept, settled held
	// ids are the numbers of now of lanes of which something was kept.
	ids map[*lane]uint64
	// runs is how many answers said kept.
	runs int
}

// readFates joins the manifest with the gateway's answers.
func readFates(named []run, answers []*v1.ResumeAnswer) fates {
	f := fates{kept: held{}, settled: held{}, ids: map[*lane]uint64{}}
	byPartition := map[partition][]*v1.ResumeAnswer{}
	for _, answer := range answers {
		at := partition{answer.GetTopic(), answer.GetPartition()}
		byPartition[at] = append(byPartition[at], answer)
		if answer.GetResult() == v1.ResumeResult_RESUME_RESULT_KEPT {
			f.runs++
		}
	}
	for _, of := range byPartition {
		slices.SortFunc(of, func(a, b *v1.ResumeAnswer) int {
			return cmp.Compare(a.GetFirstOffset(), b.GetFirstOffset())
		})
	}
	for _, r := range named {
		of := byPartition[r.lane.partitionOf()]
		from, _ := slices.BinarySearchFunc(of, r.first, func(a *v1.ResumeAnswer, first int64) int {
			return cmp.Compare(a.GetLastOffset(), first)
		})
		for _, answer := range of[from:] {
			if answer.GetFirstOffset() > r.last {
				break
			}
			part := r.part(max(r.first, answer.GetFirstOffset()), min(r.last, answer.GetLastOffset()))
			switch answer.GetResult() {
			case v1.ResumeResult_RESUME_RESULT_KEPT:
				f.kept.insert(part)
				f.ids[r.lane] = answer.GetLane()
			case v1.ResumeResult_RESUME_RESULT_SETTLED:
				f.settled.insert(part)
			default:
			}
		}
	}
	return f
}

// of returns which parts of r the gateway kept, and which are lost. What has its verdict is
// in neither.
func (f fates) of(r run) (kept, lost []run) {
	kept = f.kept.take(r)
	rest := held{}
	rest.insert(r)
	for _, part := range append(f.settled.take(r), kept...) {
		rest.take(part)
	}
	return kept, rest.runs()
}
