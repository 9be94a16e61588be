package ackgate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc/codes"
)

// Subscriber receives records of one subscription and answers them. It connects again by
// itself; what it returns as an error is what trying again does not help. Take records with
// one of Run, RunBatches, Receive and ReceiveBatch; end it with Close, whatever happened.
//
// It reads ahead up to its credit, in goroutines of its own.
type Subscriber struct {
	client       *Client
	subscription string
	options      Options
	gateways     gateways
	settler      *settler
	counters     counters
	// queue has what was received and is not begun. A batch has one record at least, so
	// within the credit it does not fill.
	queue chan *Batch
	// extending: what is in hand gets more time by itself.
	extending atomic.Bool
	// ctx ends everything at once.
	ctx    context.Context
	cancel context.CancelFunc
	// leaving: no new records. closing: say goodbye now.
	leaving, closing context.Context
	leave, sayClose  context.CancelFunc
	// done is closed when the last session has ended; err is then set, or nil.
	done chan struct{}
	err  *Error

	// taking holds what is left of the batch that Receive is in. Its lock is held while
	// waiting, by a channel so that waiting for it can be given up.
	taking chan []*Delivery

	mu           sync.Mutex
	subscriberID string
	session      string
	token        string
}

// Open subscribes. It waits until the stream is open, trying again as later reconnects do,
// or until ctx ends; ctx has no meaning for the subscriber afterwards.
func (c *Client) Open(ctx context.Context, subscription string, options Options) (*Subscriber, error) {
	options, err := options.checked(subscription)
	if err != nil {
		return nil, err
	}
	s := &Subscriber{
		client: c, subscription: subscription, options: options,
		queue: make(chan *Batch, options.CreditRecords), done: make(chan struct{}),
		taking: make(chan []*Delivery, 1),
	}
	s.taking <- nil
	s.gateways.every = c.targets
	s.settler = newSettler(flushRecords, options.Confirm == ConfirmDurable, s.lost)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.closing, s.sayClose = context.WithCancel(context.Background())
	ready := make(chan struct{})
	go s.keep(ready)
	select {
	case <-ready:
		return s, nil
	case <-s.done:
		s.end()
		if s.err != nil {
			return nil, s.err
		}
		return s, nil
	case <-ctx.Done():
		s.end()
		<-s.done
		return nil, ctx.Err()
	}
}

// keep keeps the subscriber subscribed until it is closed, an error comes that trying again
// does not help, or the tries are used up.
func (s *Subscriber) keep(ready chan struct{}) {
	defer close(s.done)
	tries := backoff{
		first: s.options.FirstBackoff, most: s.options.MaxBackoff, addresses: len(s.gateways.every),
	}
	opened := sync.OnceFunc(func() { close(ready) })
	for {
		result := s.runSession(opened)
		if result.err == nil && !result.drained {
			s.over(nil)
			return
		}
		if s.closing.Err() != nil {
			s.over(s.closedBy(result))
			return
		}
		if result.drained {
			// An old connection is followed by a new one to the same gateway.
			if result.stops {
				s.gateways.leave()
			}
			s.forget()
			s.settler.end(false)
			tries.reset()
			if !s.pause(tries.next(0)) {
				s.over(s.closedBy(result))
				return
			}
			continue
		}
		if result.useful {
			tries.reset()
		}
		limit := s.options.MaxRetries
		if (limit > 0 && tries.failures >= limit) || !s.goesOn(result) {
			s.over(result.err)
			return
		}
		s.settler.end(s.isResumable())
		delay := tries.next(result.err.RetryAfter)
		if disconnected := s.options.Trace.Disconnected; disconnected != nil {
			disconnected(result.err, delay)
		}
		if !s.pause(delay) {
			s.over(s.closedBy(end{err: errClosing}))
			return
		}
	}
}

// goesOn returns whether trying again can help, here or at another address, and turns there.
func (s *Subscriber) goesOn(result end) bool {
	switch {
	case !result.err.Temporary():
		s.forget()
		return result.err.Reason != superseded && s.gateways.refuse()
	// What is in hand is known only where it came from: there first.
	case !result.opened || !s.isResumable():
		s.gateways.leave()
	}
	return true
}

// Address returns where the stream is, or is tried next, as it was given.
func (s *Subscriber) Address() string { return s.gateways.at().address }

// closedBy returns what became of the goodbye when a session ended otherwise, or there was
// none.
func (s *Subscriber) closedBy(result end) *Error {
	if result.err != nil && result.err != errClosing {
		return result.err
	}
	if !s.settler.isAnswered() {
		return &Error{
			Code: codes.Unavailable, Message: "closed while there was no stream: the last verdicts do not count",
		}
	}
	return nil
}

// pause waits between sessions. Returns whether there is to be another.
func (s *Subscriber) pause(delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing.Done():
		return false
	case <-s.ctx.Done():
		return false
	}
}

// over ends it for good: nothing is gone on with.
func (s *Subscriber) over(err *Error) {
	if s.ctx.Err() != nil && err != nil {
		err = errClosing
	}
	s.err = err
	s.leave()
	s.counters.lost.Add(s.settler.end(false))
}

// openMessage makes what to begin with: anew, or where the last session broke.
func (s *Subscriber) openMessage() *v1.Open {
	message := s.options.open(s.subscription)
	if s.leaving.Err() != nil {
		message.Credit = &v1.Credit{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	message.Takeover = s.options.Takeover && s.session == ""
	if s.subscriberID != "" && (s.token != "" || s.options.SubscriberID != "") {
		message.SubscriberId = s.subscriberID
	}
	if s.token != "" {
		message.Resume = &v1.Resume{Token: s.token, Held: s.settler.name()}
	}
	return message
}

func (s *Subscriber) opened(first *v1.Opened) {
	s.gateways.opened()
	kept := s.settler.begin(first.GetResumed())
	s.counters.sessions.Add(1)
	s.mu.Lock()
	s.session, s.subscriberID = first.GetSession(), first.GetSubscriberId()
	s.token = first.GetResumeToken()
	s.mu.Unlock()
	if opened := s.options.Trace.Opened; opened != nil {
		opened(first.GetSession(), first.GetSubscriberId(), kept)
	}
}

// forget notes that the session was ended properly: nothing goes on with it.
func (s *Subscriber) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

func (s *Subscriber) isResumable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token != ""
}

// settled reads the gateway's answer to verdicts or extensions.
func (s *Subscriber) settled(message *v1.Settled) {
	for _, answer := range message.GetAnswers() {
		first, last := answer.GetFirstOffset(), answer.GetLastOffset()
		count := uint64(last-first) + 1
		if message.GetSequence()&extendBit != 0 {
			s.counters.refused.Add(count)
			s.settler.refused(answer.GetLane(), first, last)
			continue
		}
		s.counters.problems.Add(count)
		topic, number := s.settler.nameOf(answer.GetLane())
		s.problem(Problem{
			Topic: topic, Partition: number, FirstOffset: first, LastOffset: last,
			Kind: kindOf(answer.GetResult()), Detail: answer.GetDetail(),
		})
	}
}

// lost is told of verdicts that came too late to be sent.
func (s *Subscriber) lost(r run) {
	s.counters.lost.Add(r.len())
	s.problem(Problem{
		Topic: r.lane.topic, Partition: r.lane.partition, FirstOffset: r.first, LastOffset: r.last,
		Kind: Lost,
	})
}

func (s *Subscriber) problem(p Problem) {
	if problem := s.options.Trace.Problem; problem != nil {
		problem(p)
	}
}

func (s *Subscriber) sent(a answered) {
	s.counters.of(a.outcome).Add(a.len())
	if settled := s.options.Trace.Settled; settled != nil {
		settled(Settled{
			Topic: a.lane.topic, Partition: a.lane.partition, FirstOffset: a.first, LastOffset: a.last,
			Attempt: a.attempt, Delivery: a.delivery, Outcome: a.outcome,
		})
	}
}

// Close says goodbye: verdicts given so far are sent, what was not begun is given back, and
// what is still in hand is released, so answer it first. It waits for the gateway to end the
// stream, up to CloseTimeout or the end of ctx, and returns an *Error if the last verdicts
// may not count. Calling it again does no harm.
func (s *Subscriber) Close(ctx context.Context) error {
	s.stopTaking()
	s.sayClose()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	s.end()
	<-s.done
	if s.err != nil {
		return s.err
	}
	return nil
}

// end ends all at once.
func (s *Subscriber) end() {
	s.leave()
	s.sayClose()
	s.cancel()
}

// Stats returns the counts so far. They are not taken at one instant.
func (s *Subscriber) Stats() Stats { return s.counters.snapshot() }

// SubscriberID returns the subscriber's name, given or made by the gateway.
func (s *Subscriber) SubscriberID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscriberID
}
