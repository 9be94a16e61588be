package ackgate

import (
	"context"
	"slices"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// A settler over the sessions of its subscriber: what each brings, how it ends, and what
// the next one keeps.

// name returns what to name to the gateway when the next session is opened.
func (s *settler) name() []*v1.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := s.held.runs()
	for _, a := range s.answers {
		runs = append(runs, a.run)
	}
	s.named = manifest(runs)
	return heldToWire(s.named)
}

// begin notes that a session is open that keeps what answers says. Returns how many runs
// it kept.
func (s *settler) begin(answers []*v1.ResumeAnswer) int {
	s.mu.Lock()
	f := readFates(s.named, answers)
	s.named = nil
	s.phase = open
	// The goodbye to a draining gateway was for its session alone.
	s.draining, s.closing, s.hurried = false, false, false
	lost := s.keep(f)
	s.hasChanged()
	s.mu.Unlock()
	for _, r := range lost {
		s.lost(r)
	}
	s.nudge()
	return f.runs
}

// keep keeps what the gateway keeps, under the numbers that it has now. Returns verdicts
// that came too late.
func (s *settler) keep(f fates) (lost []run) {
	s.lanes = make(map[uint64]*lane, len(f.ids))
	for one, id := range f.ids {
		one.id = id
		s.lanes[id] = one
	}
	before := s.held
	s.held, s.lapsing, s.out = held{}, held{}, 0
	for _, r := range before.runs() {
		kept, _ := f.of(r)
		for _, part := range kept {
			s.held.insert(part)
			s.lapsing.insert(part)
			s.out += part.len()
		}
	}
	answers := s.answers
	s.answers, s.pending = nil, 0
	for _, a := range answers {
		kept, late := f.of(a.run)
		for _, part := range kept {
			s.answers = append(s.answers, answered{part, a.verdict})
			s.pending += part.len()
		}
		lost = append(lost, late...)
	}
	s.keepWatchers()
	for key := range s.extensions {
		if _, ok := f.ids[key.lane]; !ok {
			delete(s.extensions, key)
		}
	}
	return lost
}

// keepWatchers lets those go on waiting whose verdict is still to be sent.
func (s *settler) keepWatchers() {
	if len(s.watchers) == 0 {
		return
	}
	unsent := held{}
	for _, a := range s.answers {
		unsent.insert(a.run)
	}
	s.watchers = slices.DeleteFunc(s.watchers, func(one watcher) bool {
		lost := !unsent.has(one.run)
		if lost {
			one.durable.sessionEnded()
		}
		return lost
	})
}

// end notes that the stream is gone. mayGoOn: it may be gone on with; else nothing that
// came from it counts any more. Returns how many records' verdicts were dropped.
func (s *settler) end(mayGoOn bool) (dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit = nil
	s.waits.end()
	if mayGoOn {
		s.phase = broken
	} else {
		s.phase = over
		dropped = s.pending
		for _, one := range s.watchers {
			one.durable.sessionEnded()
		}
		s.gathered, s.pending = gathered{}, 0
		s.held, s.lapsing, s.out = held{}, held{}, 0
	}
	s.hasChanged()
	return dropped
}

func (s *settler) hasChanged() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// isHeld waits, while a broken session may be gone on with, whether the record is still the
// program's. Ends early with ctx, or with leaving.
func (s *settler) isHeld(ctx, leaving context.Context, r run) (bool, error) {
	for {
		s.mu.Lock()
		phase, has, changed := s.phase, s.held.has(r), s.changed
		s.mu.Unlock()
		if phase != broken {
			return has, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-leaving.Done():
			return false, errLeaving
		}
	}
}
