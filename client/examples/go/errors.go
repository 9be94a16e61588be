package ackgate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxRetryAfter is the longest wait that a gateway can ask for.
const maxRetryAfter = time.Minute

// superseded is the gateway's reason for ending a stream whose place another one took.
const superseded = "SUPERSEDED"

// Error says why a stream could not be opened, or why it ended for good. Find it with
// [errors.As].
type Error struct {
	// Code is the gRPC code; of what went wrong on this side, the nearest one.
	Code codes.Code
	// Reason is the gateway's stable reason code. Empty if the gateway gave none.
	Reason string
	// Message says it in words, with the violated fields if there are any.
	Message string
	// RetryAfter is the least time to wait before another try. 0: not given.
	RetryAfter time.Duration
	// TLS: TLS did not come about, and would not if it were tried again. The gateway's
	// certificate is of no trusted authority, for another name or out of its time, the
	// gateway did not take this side's certificate or wanted one, or what listens there does
	// not speak TLS. Message says which, and what to do.
	TLS bool
	// Address is the gateway's, as it was given. Empty: not known.
	Address string
}

// Error returns all of it in one line.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("ackgate: %s: %s", codeName(e.Code), e.Message)
	}
	return fmt.Sprintf("ackgate: %s (%s): %s", codeName(e.Code), e.Reason, e.Message)
}

// CodeName returns the code as the gRPC specification spells it, such as NOT_FOUND.
func (e *Error) CodeName() string { return codeName(e.Code) }

// Temporary returns whether the same can succeed later without anybody changing options
// or configuration. A Subscriber tries such again by itself.
func (e *Error) Temporary() bool {
	// Superseded: another stream of this name took its place; the two would take turns.
	if e.TLS || e.Reason == superseded {
		return false
	}
	switch e.Code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied,
		codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange,
		codes.Unimplemented:
		return false
	default:
		return true
	}
}

// codeName spells a code in capitals, as the specification does.
func codeName(code codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
		"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
		"ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprintf("CODE_%d", uint32(code))
}

// fromStatus reads a gRPC error with its google.rpc details.
func fromStatus(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	e := &Error{Code: st.Code(), Message: st.Message()}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason = detail.GetReason()
		case *errdetails.RetryInfo:
			e.RetryAfter = min(max(detail.GetRetryDelay().AsDuration(), 0), maxRetryAfter)
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				said := violation.GetField() + ": " + violation.GetDescription()
				// The gateway's own messages say it already.
				if !strings.Contains(e.Message, said) {
					e.Message += "; " + said
				}
			}
		}
	}
	return e
}

// ErrRelease is what a handler returns to give a record back untouched: again at once,
// elsewhere if possible. It uses no attempt.
var ErrRelease = errors.New("ackgate: record is given back")

// RejectError is a handler's permanent refusal of a record; see [Reject].
type RejectError struct {
	// Code is short and stable, at most 128 bytes; it stands in the dead letter.
	Code string
	// Reason says why in words, at most 1 KiB.
	Reason string
}

// Error returns code and reason.
func (e *RejectError) Error() string { return "rejected: " + e.Code + ": " + e.Reason }

// Reject makes the error with which a handler refuses a record for good: it becomes a dead
// letter now. Longer codes and reasons than the gateway keeps are cut.
func Reject(code, reason string) error { return &RejectError{Code: code, Reason: reason} }

// RetryError is a handler's wish to get the record again later; see [RetryAfter].
type RetryError struct {
	// After is the least time until then, at most an hour.
	After time.Duration
	// Err is why.
	Err error
}

// Error returns why.
func (e *RetryError) Error() string {
	if e.Err == nil {
		return "to be tried again"
	}
	return e.Err.Error()
}

// Unwrap returns why.
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter makes the error with which a handler fails a record: it comes again, not
// before d, in place of the gateway's backoff. Uses an attempt. err may be nil.
func RetryAfter(d time.Duration, err error) error { return &RetryError{After: d, Err: err} }
