package dedup

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// The vectors come from the reference implementation in C, so they pin the
// algorithm, its seed (none) and the order of bytes, across every length class
// of xxh3 (1–3, 9–16, 17–128, 129–240, above).
func TestHashIsPinned(t *testing.T) {
	t.Parallel()
	count := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		return string(b)
	}
	for _, v := range []struct{ id, want string }{
		{"\x00", "a6cd5e9392000f6ac44bdff4074eecdb"},
		{"a", "a96faf705af16834e6c632b61e964e1f"},
		{"order-4711", "5bb5ea715cb7ee680829849f39953227"},
		{"01980000-abcd-7123-8123-456789abcdef", "1ecf9b7124b642c42a108c7093f1db01"},
		{count(129), "dd5e74ac6b45f54ebc30b63382b09a3b"},
		{count(256), "f1f8a93f50849ac39408a4433b952d71"},
		{strings.Repeat("x", 65535), "e7f602a22573717e802d38f7e4fe4f5f"},
	} {
		h := Of([]byte(v.id))
		if got := hex.EncodeToString(h[:]); got != v.want {
			t.Errorf("Of(%.40q) = %s, want %s: if this fails you changed the identity of every id already stored, and none of them would be found again", v.id, got, v.want)
		}
		if h.IsMinted() {
			t.Errorf("Of(%.40q) means minted", v.id)
		}
	}
}

func TestZeroHashIsReserved(t *testing.T) {
	t.Parallel()
	if !(Hash{}).IsMinted() {
		t.Error("the zero Hash does not mean minted")
	}
	if h := fromHalves(xxh3.Uint128{}); h != (Hash{15: 1}) || h.IsMinted() {
		t.Errorf("a hash of 0 became %x", h)
	}
	if h := fromHalves(xxh3.Uint128{Hi: 1}); h != (Hash{7: 1}) {
		t.Errorf("only a hash of 0 is remapped: %x", h)
	}
}

func BenchmarkOf(b *testing.B) {
	id := []byte("01980000-abcd-7123-8123-456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		Of(id)
	}
}
