package ackgate

import (
	"context"
	"fmt"
	"sync"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// Durable ends once a verdict survives the loss of the gateway, or will not. Each ends: with
// the gateway's answer, or with its stream. Not to wait for it is fine.
type Durable struct {
	done chan struct{}
	once sync.Once
	err  *NotDurable
}

// NotDurable says that a verdict is not known to be durable: the record may come again.
type NotDurable struct {
	// Message says why in words.
	Message string
	// Kind is what the gateway said of the verdict. Empty: nobody asked for durable
	// confirmations, or the stream ended before the answer, and the verdict may have become
	// durable all the same.
	Kind Kind
}

// Error returns why.
func (e *NotDurable) Error() string { return "ackgate: " + e.Message }

// Done is closed when the wait is over.
func (d *Durable) Done() <-chan struct{} { return d.done }

// Wait waits until the verdict is durable. Returns a *NotDurable if it will not be known to
// be, or ctx's error if that ends first.
func (d *Durable) Wait(ctx context.Context) error {
	select {
	case <-d.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

func newDurable() *Durable { return &Durable{done: make(chan struct{})} }

func (d *Durable) end(err *NotDurable) {
	d.once.Do(func() {
		d.err = err
		close(d.done)
	})
}

func (d *Durable) sessionEnded() {
	d.end(&NotDurable{Message: "the stream ended before the verdict was confirmed"})
}

// overDurable is one that is over: nobody will tell.
func overDurable(why string) *Durable {
	d := newDurable()
	d.end(&NotDurable{Message: why})
	return d
}

// watcher is who waits for the verdict on one record.
type watcher struct {
	run
	durable *Durable
}

// place is a record within a stream.
type place struct {
	lane   uint64
	offset int64
}

// unconfirmed is a message whose answer somebody waits for.
type unconfirmed struct {
	watchers map[place]*Durable
	failed   map[place]Kind
}

// waits are the messages of one session that are not confirmed. Its settler's lock guards it.
type waits map[uint64]*unconfirmed

// sent notes that a message with this number is about to be sent.
func (w waits) sent(sequence uint64, watchers []watcher) {
	if len(watchers) == 0 {
		return
	}
	message := &unconfirmed{watchers: map[place]*Durable{}, failed: map[place]Kind{}}
	for _, one := range watchers {
		message.watchers[place{one.lane.id, one.first}] = one.durable
	}
	w[sequence] = message
}

// settled takes the gateway's answer in, and ends the waits for it.
func (w waits) settled(wire *v1.Settled) {
	message, ok := w[wire.GetSequence()]
	if !ok {
		return
	}
	for _, answer := range wire.GetAnswers() {
		kind := kindOf(answer.GetResult())
		// An equal verdict given before is as good.
		if kind != Duplicate {
			message.fail(answer.GetLane(), answer.GetFirstOffset(), answer.GetLastOffset(), kind)
		}
	}
	if wire.GetMore() {
		return
	}
	delete(w, wire.GetSequence())
	for at, durable := range message.watchers {
		if kind, ok := message.failed[at]; ok {
			durable.end(&NotDurable{Message: fmt.Sprintf("the verdict did not become durable: %s", kind), Kind: kind})
		} else {
			durable.end(nil)
		}
	}
}

// fail notes which of those who wait are concerned, looking by the record or by the watcher,
// whichever are fewer.
func (m *unconfirmed) fail(lane uint64, first, last int64, kind Kind) {
	note := func(at place) {
		if _, known := m.failed[at]; !known {
			m.failed[at] = kind
		}
	}
	if uint64(last-first) < uint64(len(m.watchers)) {
		for offset := first; offset <= last; offset++ {
			note(place{lane, offset})
		}
		return
	}
	for at := range m.watchers {
		if at.lane == lane && first <= at.offset && at.offset <= last {
			note(at)
		}
	}
}

// end ends all waits: the stream is over.
func (w waits) end() {
	for sequence, message := range w {
		for _, durable := range message.watchers {
			durable.sessionEnded()
		}
		delete(w, sequence)
	}
}

// watching returns those who wait for one of these verdicts.
func watching(answers []answered, all map[handOver]map[int64]*Durable) []watcher {
	if len(all) == 0 {
		return nil
	}
	var found []watcher
	for _, a := range answers {
		byOffset := all[a.watchKey()]
		if len(byOffset) == 0 {
			continue
		}
		for offset := a.first; offset <= a.last; offset++ {
			if durable, ok := byOffset[offset]; ok {
				found = append(found, watcher{a.part(offset, offset), durable})
			}
		}
	}
	return found
}

// watchKey is what tells a hand-over apart within a message.
func (r run) watchKey() handOver { return handOver{lane: r.lane, delivery: r.delivery} }

// byRecord indexes those who wait.
func byRecord(watchers []watcher) map[handOver]map[int64]*Durable {
	all := map[handOver]map[int64]*Durable{}
	for _, one := range watchers {
		key := one.watchKey()
		if all[key] == nil {
			all[key] = map[int64]*Durable{}
		}
		all[key][one.first] = one.durable
	}
	return all
}
