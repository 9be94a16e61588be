package ackgate

import (
	"strings"
	"time"
)

// maxRetry is the most that a failed verdict may ask for.
const maxRetry = time.Hour

// Longest code and reason that the gateway keeps, in bytes.
const (
	maxCode   = 128
	maxReason = 1024
)

// Outcome is what a verdict says.
type Outcome string

// The outcomes.
const (
	Acked    Outcome = "acked"
	Rejected Outcome = "rejected"
	Failed   Outcome = "failed"
	Released Outcome = "released"
)

// verdict is an outcome with what goes with it.
type verdict struct {
	outcome      Outcome
	code, reason string
	// retryAfter counts if hasRetry is set: 0 means at once, not the backoff.
	retryAfter time.Duration
	hasRetry   bool
}

func rejected(code, reason string) verdict {
	return verdict{outcome: Rejected, code: cut(code, maxCode), reason: cut(reason, maxReason)}
}

func failed(code, reason string) verdict {
	return verdict{outcome: Failed, code: cut(code, maxCode), reason: cut(reason, maxReason)}
}

func (v verdict) after(delay time.Duration) verdict {
	v.retryAfter, v.hasRetry = min(max(delay, 0), maxRetry), true
	return v
}

// cut returns the longest beginning of text that fits and is whole characters, so that a
// long reason never costs the verdict.
func cut(text string, most int) string {
	if len(text) <= most {
		return validText(text)
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return validText(text[:most])
}

func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
