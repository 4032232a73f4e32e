package store

import "testing"

// Every size has one place, at most a fifth of a buffer is idle, and what is taken
// back is found again by whoever needs that much.
func TestRowBufferSizes(t *testing.T) {
	t.Parallel()
	sizes := map[int]int{}
	for n := rowBufferBytesMin; n <= rowBufferBytesMax; n += 61 {
		class, size := rowBufferClass(n)
		if size < n || (size-n)*5 >= size {
			t.Fatalf("%d bytes lie in a buffer of %d", n, size)
		}
		if class < 0 || class >= len(rowBuffers) {
			t.Fatalf("%d bytes have place %d of %d", n, class, len(rowBuffers))
		}
		if was, ok := sizes[class]; ok && was != size {
			t.Fatalf("place %d is of buffers of %d and of %d bytes", class, was, size)
		}
		sizes[class] = size
		if again, exact := rowBufferClass(size); again != class || exact != size {
			t.Fatalf("a buffer of %d bytes goes to place %d as one of %d, not to %d", size, again, exact, class)
		}
	}
	if class, size := rowBufferClass(rowBufferBytesMax); class != len(rowBuffers)-1 || size != rowBufferBytesMax || len(sizes) != len(rowBuffers) {
		t.Fatalf("the largest is of %d bytes in place %d of %d, %d sizes are used", size, class, len(rowBuffers), len(sizes))
	}
}

func TestRowBufferHoldsWhatItScanned(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, rowBufferBytesMin - 1, rowBufferBytesMin, 100_001, rowBufferBytesMax, rowBufferBytesMax + 1} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i * 7)
		}
		var r rowBuffer
		if err := r.ScanBytes(in); err != nil || string(r.b) != string(in) || r.b == nil {
			t.Fatalf("%d bytes read as %d, %v", n, len(r.b), err)
		}
		Recycle(r.b)
	}
	r := rowBuffer{b: []byte("x")}
	if err := r.ScanBytes(nil); err != nil || r.b != nil {
		t.Fatalf("NULL reads as %q, %v", r.b, err)
	}
}
