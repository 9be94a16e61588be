package ackgate

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// messageSlack is what the library's own limit has beyond what the gateway is told.
const messageSlack = 64 << 10

// end is how a session ended.
type end struct {
	// err is nil after a goodbye, or if nothing is left for the subscriber.
	err *Error
	// drained: the gateway asked for it, and everything was answered.
	drained bool
	// useful: records came, or it lasted.
	useful bool
	// opened: there was a stream. stops: it drained because the gateway stops.
	opened, stops bool
}

// session is one stream: it opens it and reads it to its end. It knows nothing of earlier
// or later ones.
type session struct {
	sub    *Subscriber
	cancel context.CancelCauseFunc
	stream grpc.BidiStreamingClient[v1.SubscribeRequest, v1.SubscribeResponse]
	// silence ends the session if nothing comes for this long; 0: no limit.
	silence time.Duration
	// draining: the gateway asked for the end. closing: this side did.
	draining, stops, closing, useful bool
}

// runSession runs one session from connecting to its end.
func (s *Subscriber) runSession(opened func()) end {
	to := s.gateways.at()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	late := &Error{
		Code: codes.DeadlineExceeded, Message: "the gateway did not open the stream within " + s.options.OpenTimeout.String(),
	}
	timer := time.AfterFunc(s.options.OpenTimeout, func() { cancel(late) })
	defer timer.Stop()
	stopped := context.AfterFunc(s.closing, func() { cancel(errClosing) })
	defer stopped()
	conn, err := s.client.connect(to, int(s.options.MaxMessageBytes)+messageSlack)
	if err != nil {
		return end{err: invalid("%v", err)}
	}
	defer conn.Close()
	stream, err := v1.NewGatewayServiceClient(conn).Subscribe(ctx)
	if err != nil {
		return end{err: to.explain(cause(ctx, err))}
	}
	one := &session{sub: s, cancel: cancel, stream: stream}
	first, err := one.open()
	if err != nil {
		return end{err: to.explain(cause(ctx, err))}
	}
	if !timer.Stop() || !stopped() {
		return end{err: cause(ctx, context.Canceled)}
	}
	result := one.serve(ctx, first, opened)
	if result.err != nil && result.err != errClosing {
		told := *result.err
		told.Address = to.address
		result.err = &told
	}
	result.opened, result.stops = true, one.stops
	return result
}

// errClosing ends what was not open yet when the subscriber was closed.
var errClosing = &Error{Code: codes.Canceled, Message: "the subscriber was closed"}

// cause prefers why the session was ended from this side over what gRPC makes of it.
func cause(ctx context.Context, err error) *Error {
	var own *Error
	if errors.As(context.Cause(ctx), &own) {
		return own
	}
	if errors.Is(err, io.EOF) {
		return &Error{Code: codes.Unavailable, Message: "the gateway ended the stream"}
	}
	return fromStatus(err)
}

// open sends `Open` and waits for its answer.
func (s *session) open() (*v1.Opened, error) {
	if err := s.stream.Send(&v1.SubscribeRequest{Request: &v1.SubscribeRequest_Open{Open: s.sub.openMessage()}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// A refused `Open` is told by the reading half.
	message, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	opened := message.GetOpened()
	if opened == nil {
		return nil, status.Error(codes.FailedPrecondition, "the gateway broke the protocol: the first message is not Opened")
	}
	return opened, nil
}

// serve reads the open stream to its end, with a writer beside it.
func (s *session) serve(ctx context.Context, first *v1.Opened, opened func()) end {
	begun := time.Now()
	settings := first.GetSettings()
	sub := s.sub
	sub.opened(first)
	opened()
	w := s.writer(settings)
	s.silence = 2 * positive(settings.GetPingInterval())
	var others sync.WaitGroup
	others.Go(func() { w.run(ctx) })
	others.Go(func() { s.awaitClose(ctx) })
	result := s.read(ctx)
	result.useful = s.useful || time.Since(begun) > sub.options.MaxBackoff
	s.cancel(nil)
	others.Wait()
	return result
}

// writer makes what sends on the session.
func (s *session) writer(settings *v1.Settings) *writer {
	w := &writer{
		settler: s.sub.settler, stream: s.stream, maxVerdicts: maxVerdicts,
		beat: positive(settings.GetLeaseBeat()), deadline: min(positive(settings.GetAckDeadline()), maxExtension),
		extending: s.sub.extending.Load, sent: s.sub.sent, hurry: s.sub.options.CloseTimeout,
	}
	if most := int(settings.GetMaxVerdicts()); most > 0 {
		w.maxVerdicts = min(most, maxVerdicts)
	}
	return w
}

// awaitClose begins the goodbye once the program wants it, and limits how long it may take.
func (s *session) awaitClose(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.sub.closing.Done():
	}
	s.sub.settler.close()
	timeout := s.sub.options.CloseTimeout
	most := timeout
	if s.sub.options.Confirm == ConfirmDurable {
		// Before the goodbye so long for confirmations.
		most *= 2
	}
	select {
	case <-ctx.Done():
	case <-time.After(most):
		s.cancel(&Error{
			Code:    codes.DeadlineExceeded,
			Message: "the gateway did not end the stream within " + timeout.String() + " of the goodbye",
		})
	}
}

func (s *session) read(ctx context.Context) end {
	silent := &Error{
		Code: codes.Unavailable, Message: "no sign of life from the gateway for " + s.silence.String(),
	}
	watch := time.AfterFunc(time.Hour, func() { s.cancel(silent) })
	watch.Stop()
	defer watch.Stop()
	for {
		if s.silence > 0 {
			watch.Reset(s.silence)
		}
		message, err := s.stream.Recv()
		watch.Stop()
		switch {
		case err == nil:
			s.take(message)
		case errors.Is(err, io.EOF) && s.sub.closing.Err() != nil:
			return end{}
		case errors.Is(err, io.EOF) && s.draining:
			return end{drained: true}
		// With OK, and only so: an end without a status is an error.
		case errors.Is(err, io.EOF) && s.sub.options.UntilDrained:
			return end{}
		default:
			return end{err: cause(ctx, err)}
		}
	}
}

// take handles one message. Kinds that this version does not know are passed over.
func (s *session) take(message *v1.SubscribeResponse) {
	switch message := message.GetResponse().(type) {
	case *v1.SubscribeResponse_Batch:
		s.useful = true
		s.batch(message.Batch)
	case *v1.SubscribeResponse_Settled:
		s.sub.settled(message.Settled)
		s.sub.settler.confirmed(message.Settled)
	case *v1.SubscribeResponse_Drain:
		s.draining = true
		s.stops = message.Drain.GetReason() == v1.DrainReason_DRAIN_REASON_GATEWAY_STOPS
		if drained := s.sub.options.Trace.Drained; drained != nil {
			drained(drainReason(message.Drain))
		}
		s.sub.settler.drain()
	}
}

func (s *session) batch(wire *v1.Batch) {
	sub := s.sub
	ln := sub.settler.laneOf(wire.GetLane(), wire.GetTopic(), wire.GetPartition(), wire.GetEpoch())
	batch := newBatch(sub.settler, ln, wire)
	sub.counters.batches.Add(1)
	sub.counters.records.Add(uint64(len(batch.Deliveries)))
	sub.settler.handed(runsOf(batch.Deliveries))
	if sub.leaving.Err() != nil {
		sub.discard(batch.Deliveries)
		return
	}
	// The queue fills only if the gateway exceeds the credit; HTTP/2 then holds it back.
	select {
	case sub.queue <- batch:
	case <-sub.leaving.Done():
		sub.discard(batch.Deliveries)
	}
}

// positive returns 0 for a duration that is absent or not above 0.
func positive(d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return max(d.AsDuration(), 0)
}

// drainReason returns why the gateway ends the stream; empty if it does not say, or if this
// version does not know.
func drainReason(drain *v1.Drain) string {
	switch drain.GetReason() {
	case v1.DrainReason_DRAIN_REASON_GATEWAY_STOPS:
		return "GATEWAY_STOPS"
	case v1.DrainReason_DRAIN_REASON_CONNECTION_AGE:
		return "CONNECTION_AGE"
	default:
		return ""
	}
}
