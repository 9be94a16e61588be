package ackgate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
)

var testLane = &lane{topic: "orders", epoch: 1, id: 7}

func of(delivery uint32, first, last int64) run {
	return run{handOver{testLane, delivery, 1}, first, last}
}

func offsets(runs []run) (all []int64) {
	for _, r := range runs {
		for offset := r.first; offset <= r.last; offset++ {
			all = append(all, offset)
		}
	}
	return all
}

// Random runs go in and out, as they do of a plain set of numbers.
func TestHeldIsASetOfOffsets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	got, want := held{}, map[int64]bool{}
	for range 5_000 {
		first := random.Int64N(60)
		r := of(1, first, first+random.Int64N(8))
		var inside, outside []int64
		for offset := r.first; offset <= r.last; offset++ {
			if want[offset] {
				inside = append(inside, offset)
			} else {
				outside = append(outside, offset)
			}
		}
		if missing := offsets(got.missing(r)); !slices.Equal(missing, outside) {
			t.Fatalf("missing of %v: %v, not %v", r, missing, outside)
		}
		if random.IntN(2) == 0 {
			got.insert(r)
		} else if taken := offsets(got.take(r)); !slices.Equal(taken, inside) {
			t.Fatalf("took %v, not %v", taken, inside)
		}
		inserted := got.has(r)
		for offset := r.first; offset <= r.last; offset++ {
			want[offset] = inserted
		}
		all := got.runs()
		for i := range all[:max(len(all)-1, 0)] {
			if all[i].last+1 >= all[i+1].first {
				t.Fatalf("neighbours are apart: %v", all)
			}
		}
	}
	if got.has(of(2, 0, 0)) {
		t.Error("another delivery is held")
	}
}

func TestManifestNamesTheLaterDelivery(t *testing.T) {
	named := manifest([]run{of(1, 0, 9), of(2, 4, 5), of(1, 20, 20)})
	var plain []string
	for _, r := range named {
		plain = append(plain, fmt.Sprint(r.delivery, ":", r.first, "-", r.last))
	}
	if got, want := strings.Join(plain, " "), "2:4-5 1:0-3 1:6-9 1:20-20"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestManifestStopsAtWhatAGatewayTakes(t *testing.T) {
	var runs []run
	for i := range int64(mostHeld + 5) {
		runs = append(runs, of(1, 2*i, 2*i))
	}
	if named := manifest(runs); len(named) != mostHeld {
		t.Errorf("%d runs", len(named))
	}
}

func TestWhatHasNoAnswerIsLost(t *testing.T) {
	f := readFates([]run{of(1, 0, 8)}, []*v1.ResumeAnswer{
		answer(6, 99, v1.ResumeResult_RESUME_RESULT_SETTLED, 0),
		answer(2, 4, v1.ResumeResult_RESUME_RESULT_KEPT, 9),
	})
	kept, lost := f.of(of(1, 0, 8))
	if !slices.Equal(offsets(kept), []int64{2, 3, 4}) || !slices.Equal(offsets(lost), []int64{0, 1, 5}) {
		t.Errorf("kept %v, lost %v", kept, lost)
	}
	if f.ids[testLane] != 9 {
		t.Errorf("lane %d", f.ids[testLane])
	}
	if _, lost := f.of(of(2, 2, 2)); len(lost) != 1 {
		t.Error("a delivery that was not named was kept")
	}
}

func TestCutLeavesWholeCharacters(t *testing.T) {
	for text, want := range map[string]string{"abcdef": "abcd", "abc": "abc", "abcé": "abc", "ab\xffd": "ab\uFFFD"} {
		if got := cut(text, 4); got != want && !(text == "ab\xffd" && len(got) <= 6) {
			t.Errorf("%q became %q", text, got)
		}
	}
}
