package ackgate

import (
	"regexp"
	"strings"
)

const (
	traceParent = "traceparent"
	traceState  = "tracestate"
	// mostState and mostMembers limit a tracestate that is passed on.
	mostState, mostMembers = 512, 32
)

var (
	parentForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)
	memberForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*$`)
)

// TraceContext is the span that work on a record continues, as W3C Trace Context has it. Its
// two fields are headers as they stand.
type TraceContext struct {
	Traceparent string
	// Tracestate is empty if there is none.
	Tracestate string
}

// ParseTraceContext reads both headers; nil if traceparent is not well formed. A tracestate
// that is not, or has more than 512 bytes or 32 members, is left out.
func ParseTraceContext(traceparent, tracestate string) *TraceContext {
	parts := parentForm.FindStringSubmatch(traceparent)
	if parts == nil || parts[1] == "ff" || (parts[1] == "00" && parts[5] != "") {
		return nil // later versions may go on
	}
	if strings.Trim(parts[2], "0") == "" || strings.Trim(parts[3], "0") == "" {
		return nil // ids of zeros mean none
	}
	flags := "00"
	if strings.Contains("13579bdf", parts[4][1:]) {
		flags = "01"
	}
	context := &TraceContext{Traceparent: "00-" + parts[2] + "-" + parts[3] + "-" + flags}
	if isState(tracestate) {
		context.Tracestate = tracestate
	}
	return context
}

func isState(text string) bool {
	members := strings.Split(text, ",")
	if len(text) > mostState || len(members) > mostMembers {
		return false
	}
	for _, member := range members {
		if member = strings.Trim(member, " \t"); member != "" && !memberForm.MatchString(member) {
			return false
		}
	}
	return true
}

// TraceID returns 32 hexadecimal digits.
func (c *TraceContext) TraceID() string { return c.Traceparent[3:35] }

// SpanID returns 16 hexadecimal digits.
func (c *TraceContext) SpanID() string { return c.Traceparent[36:52] }

// IsSampled returns whether whoever wrote it may have recorded the trace.
func (c *TraceContext) IsSampled() bool { return strings.HasSuffix(c.Traceparent, "1") }

// Carrier returns what OpenTelemetry's propagators extract a context from; of a nil context
// it is empty.
func (c *TraceContext) Carrier() map[string]string {
	carrier := map[string]string{}
	if c != nil {
		carrier[traceParent] = c.Traceparent
		if c.Tracestate != "" {
			carrier[traceState] = c.Tracestate
		}
	}
	return carrier
}

// Headers returns the same as headers of a record to publish.
func (c *TraceContext) Headers() []Header {
	headers := []Header{{Name: traceParent, Value: []byte(c.Traceparent)}}
	if c.Tracestate != "" {
		headers = append(headers, Header{Name: traceState, Value: []byte(c.Tracestate)})
	}
	return headers
}

// traceContext is what the record's headers say. Whoever wrote them may have written anything:
// what is not exactly as it should be is none.
func (r *Record) traceContext() *TraceContext {
	parent, _ := r.Header(traceParent)
	var states []string
	for _, header := range r.Headers {
		if header.Name == traceState && header.Value != nil {
			states = append(states, string(header.Value))
		}
	}
	return ParseTraceContext(string(parent), strings.Join(states, ","))
}

// TraceContext returns what work on the record continues: the gateway's span, if it traces
// the record, else what its producer wrote into its headers; nil if that is nothing valid.
func (d *Delivery) TraceContext() *TraceContext {
	if d.trace != nil {
		return d.trace
	}
	return d.traceContext()
}
