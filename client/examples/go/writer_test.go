package ackgate

import (
	"io"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fullStream takes some messages and then no more.
type fullStream struct {
	left int
	sent []*v1.SubscribeRequest
}

func (s *fullStream) Send(message *v1.SubscribeRequest) error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	s.sent = append(s.sent, message)
	return nil
}

func (s *fullStream) CloseSend() error { return nil }

// A verdict that the stream does not take any more is named to the gateway in the next
// session, and sent there.
func TestVerdictsThatDoNotGetOutAreKept(t *testing.T) {
	settler := newSettler(flushRecords, false, func(r run) { t.Errorf("lost %v", r) })
	ln := settler.laneOf(7, "orders", 0, 1)
	all := run{handOver{ln, 1, 1}, 0, 9}
	settler.handed([]run{all})
	for _, r := range []run{all.part(0, 3), all.part(5, 9)} {
		settler.answer(r, verdict{outcome: Acked}, true)
	}
	stream := &fullStream{left: 1}
	var sent []answered
	w := &writer{settler: settler, stream: stream, maxVerdicts: 1, sent: func(a answered) { sent = append(sent, a) }}
	if w.flush() {
		t.Fatal("the stream is full")
	}
	if len(sent) != 1 || sent[0].last != 3 {
		t.Fatalf("sent %v", sent)
	}
	settler.end(true)
	held := settler.name()
	if len(held) != 1 || held[0].GetFirstOffset() != 4 || held[0].GetLastOffset() != 9 {
		// 4 is not answered, 5 to 9 are and the gateway does not know.
		if len(held) != 2 || held[0].GetFirstOffset() != 4 || held[1].GetLastOffset() != 9 {
			t.Fatalf("held %v", held)
		}
	}
	settler.begin([]*v1.ResumeAnswer{answer(4, 9, v1.ResumeResult_RESUME_RESULT_KEPT, 8)})
	stream.left = 1
	if !w.flush() || len(sent) != 2 || sent[1].first != 5 || sent[1].lane.id != 8 {
		t.Fatalf("sent %v", sent)
	}
}

// One extension reaches ten minutes at most: where the deadline is longer it must come as often
// as that asks for, or it would shorten the deadline and the next one would be late.
func TestLongDeadlinesAreExtendedInTime(t *testing.T) {
	session := &session{sub: &Subscriber{settler: newSettler(flushRecords, false, nil)}}
	long := settings()
	long.AckDeadline = durationpb.New(time.Hour)
	if by := session.writer(long).deadline; by != maxExtension {
		t.Errorf("by %v, each third of that", by)
	}
	if by := session.writer(settings()).deadline; by != time.Minute {
		t.Errorf("by %v", by)
	}
}
