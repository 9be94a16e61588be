package ackgate

import (
	"reflect"
	"strings"
	"testing"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	spanID    = "b7ad6b7169203331"
	parent    = "00-" + traceID + "-" + spanID + "-01"
	ownParent = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// traced makes a delivery with these headers, in pairs, and the gateway's own span.
func traced(own string, headers ...string) *Delivery {
	record := &v1.Record{Offset: 5}
	for i := 0; i < len(headers); i += 2 {
		record.Headers = append(record.Headers, &v1.Header{Key: headers[i], Value: []byte(headers[i+1])})
	}
	wire := &v1.Batch{Topic: "orders", Records: []*v1.Record{record}}
	if own != "" {
		wire.Traces = []*v1.RecordTrace{{Offset: 5, Traceparent: own, Tracestate: "g=1"}}
	}
	return newBatch(nil, &lane{}, wire).Deliveries[0]
}

func TestTheContextOfARecordIsReadAndTheGatewaysGoesBefore(t *testing.T) {
	for name, one := range map[string]struct {
		delivery *Delivery
		want     *TraceContext
	}{
		"its own":         {traced("", "traceparent", parent, "tracestate", "a=1"), &TraceContext{parent, "a=1"}},
		"none":            {traced(""), nil},
		"the gateway's":   {traced(ownParent, "traceparent", parent), &TraceContext{ownParent, "g=1"}},
		"a wrong one":     {traced("nonsense", "traceparent", parent), &TraceContext{parent, ""}},
		"the last parent": {traced("", "traceparent", "x", "tracestate", "a=1", "traceparent", parent, "tracestate", "b=2"), &TraceContext{parent, "a=1,b=2"}},
	} {
		if got := one.delivery.TraceContext(); !reflect.DeepEqual(got, one.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	context := ParseTraceContext(parent, "a=1")
	if context.TraceID() != traceID || context.SpanID() != spanID || !context.IsSampled() {
		t.Errorf("%v", context)
	}
	if got := context.Carrier(); !reflect.DeepEqual(got, map[string]string{"traceparent": parent, "tracestate": "a=1"}) {
		t.Errorf("%v", got)
	}
	if got := context.Headers(); len(got) != 2 || string(got[1].Value) != "a=1" {
		t.Errorf("%v", got)
	}
	if got := (*TraceContext)(nil).Carrier(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestWhatIsMalformedIsNoContext(t *testing.T) {
	for _, wrong := range []string{
		"", "00-0af7", strings.ToUpper(parent), strings.Replace(parent, traceID, strings.Repeat("0", 32), 1),
		strings.Replace(parent, spanID, strings.Repeat("0", 16), 1), "ff" + parent[2:], parent + "-more", " " + parent, parent + "\n",
	} {
		if got := ParseTraceContext(wrong, ""); got != nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
	for given, want := range map[string]string{"01" + parent[2:] + "-more": parent, parent[:53] + "fe": parent[:53] + "00"} {
		if got := ParseTraceContext(given, ""); got == nil || got.Traceparent != want {
			t.Errorf("%q: %v", given, got)
		}
	}
	for _, state := range []string{"a", "A=1", "a=" + strings.Repeat("x", 511), "a=1,b", strings.Repeat("a=1,", 32) + "a=1"} {
		if got := ParseTraceContext(parent, state); got.Tracestate != "" {
			t.Errorf("%q: %v", state, got)
		}
	}
	if got := ParseTraceContext(parent, "a=1, b@c=2"); got.Tracestate != "a=1, b@c=2" {
		t.Errorf("%v", got)
	}
}
