package ackgate

import (
	"math/rand/v2"
	"time"
)

// backoff spaces out tries: full jitter, so that many subscribers that lost the same
// gateway do not come back together.
type backoff struct {
	first, most time.Duration
	failures    int
	// addresses are tried in turn: a round over all of them is one step. At least 1.
	addresses int
}

// next returns a random delay up to a limit that doubles with each failure in a row,
// and no shorter than least.
func (b *backoff) next(least time.Duration) time.Duration {
	limit := b.most
	if steps := b.failures / max(b.addresses, 1); steps < 32 {
		if doubled := b.first << steps; doubled > 0 && doubled < b.most {
			limit = doubled
		}
	}
	b.failures++
	return max(rand.N(limit+1), least)
}

// reset begins anew, after something that was of use.
func (b *backoff) reset() { b.failures = 0 }
