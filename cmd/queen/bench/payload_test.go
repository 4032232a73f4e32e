package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func payload(t *testing.T, kind PayloadKind, size int) *Payload {
	t.Helper()
	p, err := NewPayload(kind, size, 7)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestValuesCarryTheirIDAndChecksum(t *testing.T) {
	t.Parallel()
	for _, kind := range []PayloadKind{Random, Text, JSON} {
		for _, size := range []int{ValueBytesMin, 300, 1024, 100_000} {
			p := payload(t, kind, size)
			v := make([]byte, size)
			for _, want := range []uint64{0, 1, idOf(3, 12345), 1<<64 - 1} {
				p.Fill(v, want)
				if id, err := p.Check(v); id != want || err != nil {
					t.Errorf("%s of %d: Check = %x, %v, want %x", kind, size, id, err, want)
				}
			}
		}
	}
}

func TestDamageIsNoticedAnywhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []PayloadKind{Random, Text, JSON} {
		p := payload(t, kind, 128)
		v := make([]byte, 128)
		p.Fill(v, 99)
		for i := range v {
			if kind == JSON && (i < jsonIDAt || i >= jsonIDAt+16 && i < jsonSumAt) || kind == Text && i == 0 {
				continue // the frame around the stamp is the same in every value
			}
			v[i] ^= 1
			if id, err := p.Check(v); err == nil {
				t.Errorf("%s: byte %d changed, Check = %x and no error", kind, i, id)
			}
			v[i] ^= 1
		}
		if _, err := p.Check(v[:127]); !errors.Is(err, errForeign) {
			t.Errorf("%s: a short value: %v, want %v", kind, err, errForeign)
		}
	}
}

func TestJSONValuesAreJSON(t *testing.T) {
	t.Parallel()
	for _, kind := range []PayloadKind{Text, JSON} {
		for _, size := range []int{ValueBytesMin, 256, 1024, 5000} {
			p := payload(t, kind, size)
			v := make([]byte, size)
			for id := range uint64(200) {
				p.Fill(v, id)
				if !json.Valid(v) {
					t.Fatalf("%s of %d, id %d is not JSON: %s", kind, size, id, v)
				}
			}
		}
	}
}

// A megabyte of a load, as a batch or a row has it, must cost a codec what real
// data costs: nothing to gain from random bytes, and from JSON not everything.
func TestLoadsCompressAsRealDataDoes(t *testing.T) {
	t.Parallel()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(kind PayloadKind, low, high float64) {
		t.Helper()
		p := payload(t, kind, 1024)
		values := make([]byte, 1<<20)
		for i := range uint64(1 << 10) {
			p.Fill(values[i<<10:(i+1)<<10], i)
		}
		row := make([]byte, 1<<20)
		p.FillRow(row, 5)
		for name, load := range map[string][]byte{"values": values, "row": row} {
			if got := float64(len(encoder.EncodeAll(load, nil))) / float64(len(load)); got < low || got > high {
				t.Errorf("%s of %s compress to %.2f, want %.2f to %.2f", name, kind, got, low, high)
			}
		}
	}
	f(Random, 0.99, 1.01)
	f(Text, 0.74, 1.01) // six bits of each eight at best; many a codec does not try
	f(JSON, 0.10, 0.50)
}

func TestRowsDifferAndCarryTheirChecksum(t *testing.T) {
	t.Parallel()
	p := payload(t, Random, 1024)
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	p.FillRow(a, idOf(1, 1))
	p.FillRow(b, idOf(1, 2))
	if bytes.Equal(a[16:], b[16:]) {
		t.Error("two rows in a row hold the same bytes")
	}
	if id, err := checkBinary(a); id != idOf(1, 1) || err != nil {
		t.Errorf("checkBinary = %x, %v, want %x", id, err, idOf(1, 1))
	}
	a[len(a)-1] ^= 1
	if _, err := checkBinary(a); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged row: %v, want %v", err, errDamaged)
	}
}
