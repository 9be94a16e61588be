package ackgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// handlerCode is the code of the failed verdict on a record whose handler returned an
// error of no kind of this package, or panicked. retryCode is that of [RetryAfter].
const (
	handlerCode = "handler"
	retryCode   = "retry"
)

// Handler works on one record; what it returns is the verdict. Its ctx ends when it is to
// stop at once: long after Run's own, which begins a graceful end.
type Handler func(ctx context.Context, delivery *Delivery) error

// BatchHandler works on a batch. What it has not answered by the batch's methods or those
// of its deliveries gets the returned verdict.
type BatchHandler func(ctx context.Context, batch *Batch) error

// Run calls handler for each record, up to concurrency (at least 1) at a time, and extends
// deadlines while records are in hand. It returns
//
//   - nil after ctx ended and everything begun was answered and sent, or, with UntilDrained,
//     when there is nothing left,
//   - an *Error when the subscriber gave up, or the last verdicts may not count.
//
// The subscriber is closed afterwards.
func (s *Subscriber) Run(ctx context.Context, concurrency int, handler Handler) error {
	return s.work(ctx, concurrency, func(handling context.Context) (func(), error) {
		delivery, err := s.Receive(ctx)
		if err != nil {
			return nil, err
		}
		return func() {
			err := safely(func() error { return handler(handling, delivery) })
			delivery.answer(verdictOf(err))
		}, nil
	})
}

// RunBatches is [Subscriber.Run] with whole batches.
func (s *Subscriber) RunBatches(ctx context.Context, concurrency int, handler BatchHandler) error {
	return s.work(ctx, concurrency, func(handling context.Context) (func(), error) {
		batch, err := s.ReceiveBatch(ctx)
		if err != nil {
			return nil, err
		}
		return func() {
			err := safely(func() error { return handler(handling, batch) })
			batch.answer(verdictOf(err))
		}, nil
	})
}

// work takes something to do while ctx lives, does up to concurrency of it at once, and
// comes to an end.
func (s *Subscriber) work(ctx context.Context, concurrency int, take func(context.Context) (func(), error)) error {
	s.extending.Store(true)
	defer s.extending.Store(false)
	handling, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var busy sync.WaitGroup
	var err error
	free := make(chan struct{}, max(concurrency, 1))
	for err == nil {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			err = ctx.Err()
			continue
		}
		var do func()
		if do, err = take(handling); err != nil {
			continue
		}
		busy.Go(func() {
			defer func() { <-free }()
			do()
		})
	}
	s.stopTaking()
	s.await(&busy, stop)
	closed := s.Close(context.WithoutCancel(ctx))
	if closed == nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return err
	}
	return closed
}

// await waits for the handlers, up to ShutdownTimeout. If the subscriber has given up, what
// they do does not count any more, and they are told.
func (s *Subscriber) await(busy *sync.WaitGroup, stop context.CancelFunc) {
	idle := make(chan struct{})
	go func() {
		busy.Wait()
		close(idle)
	}()
	timer := time.NewTimer(s.options.ShutdownTimeout)
	defer timer.Stop()
	select {
	case <-idle:
		return
	case <-s.done:
		stop()
	case <-timer.C:
		stop()
	}
	// A moment for those that listen; what is left then is given back with the goodbye.
	timer.Reset(s.options.ShutdownTimeout / 10)
	select {
	case <-idle:
	case <-timer.C:
	}
}

// safely turns a panic into an error.
func safely(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return do()
}

// verdictOf reads what a handler returned.
func verdictOf(err error) verdict {
	var reject *RejectError
	var retry *RetryError
	switch {
	case err == nil:
		return verdict{outcome: Acked}
	case errors.As(err, &reject):
		return rejected(reject.Code, reject.Reason)
	case errors.As(err, &retry):
		return failed(retryCode, retry.Error()).after(retry.After)
	case errors.Is(err, ErrRelease):
		return verdict{outcome: Released}
	default:
		return failed(handlerCode, err.Error())
	}
}
