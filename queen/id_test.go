package queen

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestIDsOfARunAreVersion7AndCountUp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for range 1000 {
		b := NewIDBase(now)
		if !b.valid() {
			t.Fatalf("base %x %x has not the layout of a base", uint64(b.Hi), uint64(b.Lo))
		}
		for _, i := range []int64{0, 1, math.MaxInt32} {
			id := b.ID(i)
			if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
				t.Fatalf("id %s: version %d, variant %v", id, id.Version(), id.Variant())
			}
			sec, nsec := id.Time().UnixTime()
			if got := time.Unix(sec, nsec).UTC(); !got.Equal(now) {
				t.Fatalf("id %s says %s, minted at %s", id, got, now)
			}
			hi, lo, ok := ParseID([]byte(id.String()))
			if !ok || hi != b.Hi || lo-b.Lo != i {
				t.Fatalf("ParseID(%s) = %x, %x, %v; base %x %x, i %d", id, hi, lo, ok, b.Hi, b.Lo, i)
			}
		}
	}
}

func TestIDOfALargestBaseDoesNotCarryIntoTheVariant(t *testing.T) {
	t.Parallel()
	const top = idVariantBits | idRandomMask
	lo := top // a variable: the constant does not fit an int64
	b := IDBase{Hi: 0x0198_0000_0000_7fff, Lo: int64(lo)}
	if !b.valid() {
		t.Fatal("the largest base is refused")
	}
	id := b.ID(math.MaxInt32)
	if got, want := id.String(), "01980000-0000-7fff-a000-00007ffffffe"; got != want {
		t.Fatalf("id %s, want %s", got, want)
	}
	if _, got, ok := ParseID([]byte(id.String())); !ok || got <= b.Lo {
		t.Fatalf("lo %d is not above its base %d as a signed number", got, b.Lo)
	}
}

func TestParseIDTakesOnlyCanonicalText(t *testing.T) {
	t.Parallel()
	const good = "01980000-abcd-7fff-a000-00007ffffffe"
	if hi, lo, ok := ParseID([]byte(good)); !ok || uint64(hi) != 0x01980000abcd7fff || uint64(lo) != 0xa00000007ffffffe {
		t.Fatalf("ParseID(%s) = %x, %x, %v", good, uint64(hi), uint64(lo), ok)
	}
	for _, bad := range []string{
		"", good[1:], good + "0", strings.ToUpper(good), "{" + good + "}", "urn:uuid:" + good,
		strings.ReplaceAll(good, "-", ""), strings.ReplaceAll(good, "-", "_"),
		"01980000-abcd-4fff-a000-00007ffffffe", // version 4
		"01980000-abcd-7fff-c000-00007ffffffe", // variant 11
		"01980000-abcd-7fff-2000-00007ffffffe", // variant 00
		"01980000-abcg-7fff-a000-00007ffffffe", // no hex digit
		"0198000-0abcd-7fff-a000-00007ffffffe", // hyphen moved
	} {
		if _, _, ok := ParseID([]byte(bad)); ok {
			t.Errorf("ParseID(%q) accepted", bad)
		}
	}
}

func TestIDBasesMintedAtOnceDiffer(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_788_000_000_000)
	var mu sync.Mutex
	seen := make(map[IDBase]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				b := NewIDBase(now)
				mu.Lock()
				if seen[b] {
					t.Errorf("base %x %x minted twice", uint64(b.Hi), uint64(b.Lo))
				}
				seen[b] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 4000 {
		t.Fatalf("%d bases, want 4000", len(seen))
	}
}
