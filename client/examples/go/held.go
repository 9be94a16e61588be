package ackgate

import (
	"cmp"
	"math"
	"slices"
)

// lane is one partition as the program's records came in. Its identity stays over a
// reconnect where the gateway keeps something of it.
type lane struct {
	topic     string
	partition int32
	epoch     uint64
	// id is how the open session names it. Guarded by the settler.
	id uint64
}

// handOver is what the records of a run have in common beside following each other.
type handOver struct {
	lane              *lane
	delivery, attempt uint32
}

// run is records of one lane that follow each other and have the same numbers.
type run struct {
	handOver
	first, last int64
}

// part returns the same with other ends.
func (r run) part(first, last int64) run { return run{r.handOver, first, last} }

func (r run) len() uint64 { return uint64(r.last-r.first) + 1 }

// join takes next in, if it follows or comes before without a gap; it returns whether.
func (r *run) join(next run) bool {
	if r.handOver != next.handOver {
		return false
	}
	switch {
	case r.last != math.MaxInt64 && r.last+1 == next.first:
		r.last = next.last
	case next.last != math.MaxInt64 && next.last+1 == r.first:
		r.first = next.first
	default:
		return false
	}
	return true
}

type span struct{ first, last int64 }

// held is which deliveries are in hand: of each key its spans, in order, apart from each
// other. A verdict counts only for what is in here and takes it out; so each delivery is
// answered once at most, and what did not survive a reconnect not at all.
type held map[handOver][]span

// at returns where the first span is that ends at offset or later.
func at(spans []span, offset int64) int {
	i, _ := slices.BinarySearchFunc(spans, offset, func(s span, offset int64) int {
		return cmp.Compare(s.last, offset)
	})
	return i
}

// insert takes in a run of deliveries; neighbours become one span.
func (h held) insert(r run) {
	spans := h[r.handOver]
	whole := span{r.first, r.last}
	from := at(spans, max(r.first, math.MinInt64+1)-1)
	to := from
	for to < len(spans) && spans[to].first-1 <= whole.last {
		whole.first = min(whole.first, spans[to].first)
		whole.last = max(whole.last, spans[to].last)
		to++
	}
	h[r.handOver] = slices.Replace(spans, from, to, whole)
}

// take takes out what is held of r and returns it.
func (h held) take(r run) []run {
	spans := h[r.handOver]
	from := at(spans, r.first)
	to := from
	var taken []run
	var rest []span
	for to < len(spans) && spans[to].first <= r.last {
		s := spans[to]
		part := span{max(s.first, r.first), min(s.last, r.last)}
		taken = append(taken, r.part(part.first, part.last))
		if s.first < part.first {
			rest = append(rest, span{s.first, part.first - 1})
		}
		if s.last > part.last {
			rest = append(rest, span{part.last + 1, s.last})
		}
		to++
	}
	if len(taken) == 0 {
		return nil
	}
	if spans = slices.Replace(spans, from, to, rest...); len(spans) == 0 {
		delete(h, r.handOver)
	} else {
		h[r.handOver] = spans
	}
	return taken
}

// missing returns the parts of r that are not held, in order.
func (h held) missing(r run) []run {
	var missing []run
	spans := h[r.handOver]
	next := r.first
	for _, s := range spans[at(spans, r.first):] {
		if s.first > r.last {
			break
		}
		if next < s.first {
			missing = append(missing, r.part(next, s.first-1))
		}
		if s.last >= r.last {
			return missing
		}
		next = s.last + 1
	}
	return append(missing, r.part(next, r.last))
}

// has returns whether the first record of r is held.
func (h held) has(r run) bool {
	spans := h[r.handOver]
	i := at(spans, r.first)
	return i < len(spans) && spans[i].first <= r.first
}

// runs returns all of it, in no order between keys.
func (h held) runs() []run {
	var runs []run
	for key, spans := range h {
		for _, s := range spans {
			runs = append(runs, run{key, s.first, s.last})
		}
	}
	return runs
}

// count returns how many records are held.
func (h held) count() uint64 {
	var count uint64
	for _, r := range h.runs() {
		count += r.len()
	}
	return count
}

// joined sorts runs and joins those that follow each other.
func joined(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(
			cmp.Compare(a.lane.id, b.lane.id), cmp.Compare(a.delivery, b.delivery),
			cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.first, b.first),
		)
	})
	var result []run
	for _, r := range runs {
		if n := len(result); n == 0 || !result[n-1].join(r) {
			result = append(result, r)
		}
	}
	return result
}
