package ackgate

import (
	"slices"
	"sync"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

// maxExtension is the most that an extension may ask for.
const maxExtension = 10 * time.Minute

// manyLanes is how many lanes are remembered once nothing of them is in hand.
const manyLanes = 10_000

// answered is a verdict and the records that it is on.
type answered struct {
	run
	verdict
}

// gathered is what the writer takes at once.
type gathered struct {
	// answers are in the order given, joined where the next one followed.
	answers []answered
	// extensions are the latest of each run, by lane and first offset.
	extensions map[extended]extension
	// watchers wait for an answer to be durable.
	watchers []watcher
	credit   *credit
	// close: nothing follows, say goodbye.
	close bool
}

type extended struct {
	lane  *lane
	first int64
}

type extension struct {
	last int64
	by   time.Duration
}

type credit struct {
	records uint32
	bytes   uint64
}

// phase is what there is of a session.
type phase int

const (
	// over: none that anything came from.
	over phase = iota
	// open: one is open.
	open
	// broken: it may be gone on with, and verdicts are kept for the next one.
	broken
)

// settler knows what the program has in hand, and gathers its verdicts until the writer of
// the session takes them. One for all sessions of a subscriber, so that deliveries outlive
// a broken stream where the gateway keeps them.
//
// Giving a verdict never waits. What is gathered is bounded by what is out, and so by the
// credit: each record is answered once.
type settler struct {
	flushRecords uint64
	// lost is told of verdicts on what is not the program's any more, without the lock.
	lost func(r run)
	// wake tells the writer that there is something to do. Holds one.
	wake chan struct{}

	mu    sync.Mutex
	phase phase
	// changed is closed, and made anew, when the phase changes.
	changed chan struct{}
	gathered
	// pending is records answered since the writer last took.
	pending uint64
	// out is records handed over and not answered: those that are held.
	out  uint64
	held held
	// lapsing is what of held is extended by itself: not what the gateway has refused.
	lapsing held
	lanes   map[uint64]*lane
	// named is what the session that is being opened names to the gateway.
	named []run
	// draining: close as soon as nothing is out. closing: now, later verdicts do not count.
	draining, closing bool
	// durable: durable confirmations are asked for. waits are those that are due. hurried:
	// the goodbye does not wait for them any longer.
	durable bool
	waits   waits
	hurried bool
}

func newSettler(flushRecords uint64, durable bool, lost func(r run)) *settler {
	return &settler{
		flushRecords: flushRecords, durable: durable, waits: waits{}, lost: lost, wake: make(chan struct{}, 1),
		changed: make(chan struct{}), held: held{}, lapsing: held{}, lanes: map[uint64]*lane{},
	}
}

func (s *settler) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// answerDurably takes the verdict on one record, and says when it is durable.
func (s *settler) answerDurably(r run, v verdict) *Durable {
	if !s.durable {
		s.answer(r, v, true)
		return overDurable("the subscriber did not ask for durable confirmations")
	}
	durable := newDurable()
	s.watched(r, v, true, durable)
	return durable
}

// answer takes a verdict. tell: if it comes too late, that is a problem.
func (s *settler) answer(r run, v verdict, tell bool) { s.watched(r, v, tell, nil) }

// watched also says who waits for the verdict; may be nil.
func (s *settler) watched(r run, v verdict, tell bool, durable *Durable) {
	s.mu.Lock()
	var count uint64
	late := s.closing
	if !late {
		for _, part := range s.held.take(r) {
			count += part.len()
			n := len(s.answers)
			if n == 0 || s.answers[n-1].verdict != v || !s.answers[n-1].join(part) {
				s.answers = append(s.answers, answered{part, v})
			}
		}
		s.lapsing.take(r)
		late = count < r.len()
	}
	if durable != nil && count > 0 {
		s.watchers = append(s.watchers, watcher{r, durable})
	} else if durable != nil {
		durable.sessionEnded()
	}
	before := s.pending
	s.pending += count
	s.out -= count
	wake := (before == 0 && count > 0) ||
		(before < s.flushRecords && s.pending >= s.flushRecords) || (s.draining && s.out == 0)
	s.mu.Unlock()
	if late && tell {
		s.lost(r)
	}
	if wake {
		s.nudge()
	}
}

// extend asks for more time; a later call for the same run replaces an unsent one.
func (s *settler) extend(runs []run, by time.Duration) {
	if by <= 0 {
		return
	}
	s.mu.Lock()
	for _, r := range runs {
		if s.closing || !s.held.has(r) {
			continue
		}
		if s.extensions == nil {
			s.extensions = map[extended]extension{}
		}
		key := extended{r.lane, r.first}
		last := max(s.extensions[key].last, r.last)
		s.extensions[key] = extension{last, min(by, maxExtension)}
	}
	s.mu.Unlock()
	s.nudge()
}

// extendAll asks for more time for all that is in hand.
func (s *settler) extendAll(by time.Duration) {
	s.mu.Lock()
	runs := s.lapsing.runs()
	s.mu.Unlock()
	if len(runs) > 0 {
		s.extend(runs, by)
	}
}

// refused notes that the gateway did not extend these: the deadline has passed, or the
// lane has gone. It is not asked again.
func (s *settler) refused(id uint64, first, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.lapsing {
		if key.lane.id == id {
			s.lapsing.take(run{key, first, last})
		}
	}
}

func (s *settler) setCredit(c credit) {
	s.mu.Lock()
	s.credit = &c
	s.mu.Unlock()
	s.nudge()
}

// drain says goodbye once everything out is answered.
func (s *settler) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.nudge()
}

// close says goodbye after what is gathered; later verdicts do not count.
func (s *settler) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.nudge()
}

// isAnswered returns whether nothing is gathered that would still be sent.
func (s *settler) isAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == over || s.pending == 0
}

// readiness says whether there is something to send, and whether it can wait for more.
func (s *settler) readiness() (something, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = (s.isLeaving() && s.mayClose(s.watchers)) || s.pending >= s.flushRecords ||
		s.credit != nil || len(s.extensions) > 0
	return now || s.pending > 0, now
}

// take gives the writer what is gathered.
func (s *settler) take() gathered {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = 0
	// Nothing counts after the goodbye, which releases what is still out.
	s.closing = s.isLeaving()
	taken := s.gathered
	taken.close = s.closing && s.mayClose(taken.watchers)
	s.gathered = gathered{}
	return taken
}

// restore takes back verdicts that did not get out, for the next session.
func (s *settler) restore(answers []answered, watchers []watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.Concat(watchers, s.watchers)
	s.answers = slices.Concat(answers, s.answers)
	for _, a := range answers {
		s.pending += a.len()
	}
}

func (s *settler) isLeaving() bool { return s.closing || (s.draining && s.out == 0) }

func (s *settler) mayClose(watchers []watcher) bool {
	return s.hurried || (len(s.waits) == 0 && len(watchers) == 0)
}

// isConfirming returns whether only confirmations are waited for before the goodbye.
func (s *settler) isConfirming() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isLeaving() && !s.mayClose(s.watchers)
}

// hurry says goodbye also if the gateway has not confirmed everything.
func (s *settler) hurry() {
	s.mu.Lock()
	s.hurried = true
	s.mu.Unlock()
	s.nudge()
}

// waiting notes that a message with this number is about to be sent, and who waits for its
// answer; without any it was not sent after all.
func (s *settler) waiting(sequence uint64, watchers []watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, sequence)
	s.waits.sent(sequence, watchers)
}

// confirmed ends the waits for a message that the gateway answers.
func (s *settler) confirmed(wire *v1.Settled) {
	s.mu.Lock()
	s.waits.settled(wire)
	leaving := s.isLeaving()
	s.mu.Unlock()
	if leaving {
		s.nudge()
	}
}

// handed notes that runs of a batch were handed over.
func (s *settler) handed(runs []run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runs {
		s.out += r.len()
		s.held.insert(r)
		s.lapsing.insert(r)
	}
}

// laneOf returns the lane that the open session names id.
func (s *settler) laneOf(id uint64, topic string, partition int32, epoch uint64) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.lanes[id]; ok {
		return found
	}
	if len(s.lanes) >= manyLanes {
		inHand := map[*lane]bool{}
		for key := range s.held {
			inHand[key.lane] = true
		}
		for id, one := range s.lanes {
			if !inHand[one] {
				delete(s.lanes, id)
			}
		}
	}
	made := &lane{topic: topic, partition: partition, epoch: epoch, id: id}
	s.lanes[id] = made
	return made
}

// nameOf returns topic and partition of what the open session names id; empty and -1 if it
// is not remembered.
func (s *settler) nameOf(id uint64) (topic string, partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.lanes[id]; ok {
		return found.topic, found.partition
	}
	return "", -1
}
