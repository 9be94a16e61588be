package ackgate

import (
	"context"
	"errors"
	"io"
)

// discard gives back what was received and not begun.
func (s *Subscriber) discard(deliveries []*Delivery) {
	s.counters.discarded.Add(uint64(len(deliveries)))
	answerAll(deliveries, verdict{outcome: Released}, false)
}

// ReceiveBatch returns the next batch, or what is left of the one that Receive is in. It
// returns io.EOF when there is nothing more, ctx's error when that ends first, and an *Error
// when the subscriber has given up.
func (s *Subscriber) ReceiveBatch(ctx context.Context) (*Batch, error) {
	deliveries, err := s.takeSome(ctx, false)
	if err != nil {
		return nil, s.endError(ctx, err)
	}
	d := deliveries[0]
	return &Batch{Topic: d.Topic, Partition: d.Partition, Epoch: d.Epoch, Deliveries: deliveries}, nil
}

// Receive returns the next record, to be answered by the delivery's methods. Errors are as
// for [Subscriber.ReceiveBatch]. Nothing extends its deadline but its own Extend.
func (s *Subscriber) Receive(ctx context.Context) (*Delivery, error) {
	deliveries, err := s.takeSome(ctx, true)
	if err != nil {
		return nil, s.endError(ctx, err)
	}
	return deliveries[0], nil
}

// takeSome takes one record or all that are left of a batch, and that are still the
// program's: what a broken session brought counts only if the next one keeps it.
func (s *Subscriber) takeSome(ctx context.Context, one bool) ([]*Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var left []*Delivery
	select {
	case left = <-s.taking:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.taking <- left }()
	for {
		for len(left) == 0 {
			select {
			case batch := <-s.queue:
				left = batch.Deliveries
			case <-s.leaving.Done():
				return nil, errLeaving
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var taken []*Delivery
		for len(left) > 0 && (!one || len(taken) == 0) {
			held, err := s.settler.isHeld(ctx, s.leaving, left[0].run())
			if err != nil {
				left = append(taken, left...)
				return nil, err
			}
			if held {
				taken = append(taken, left[0])
			} else {
				s.counters.discarded.Add(1)
			}
			left = left[1:]
		}
		if len(taken) > 0 {
			return taken, nil
		}
	}
}

// errLeaving: nothing more is taken, and the end is near.
var errLeaving = errors.New("ackgate: the subscriber ends")

// endError waits for the end, if that is why nothing was taken, and says what it was.
func (s *Subscriber) endError(ctx context.Context, err error) error {
	if !errors.Is(err, errLeaving) {
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// stopTaking ends the intake: what was not begun is given back, and nothing new is asked
// for.
func (s *Subscriber) stopTaking() {
	s.leave()
	s.settler.setCredit(credit{})
	left := <-s.taking
	s.discard(left)
	s.taking <- nil
	for {
		select {
		case batch := <-s.queue:
			s.discard(batch.Deliveries)
		default:
			return
		}
	}
}
