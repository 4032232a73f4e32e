package queen

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/store"
)

// spill is the tail's second part: what leaves memory is kept in files, for
// consumers that are behind by more than the tail holds. Reading a segment from
// PostgreSQL costs several times what reading a file does that the kernel still has in its
// cache, and takes from whoever writes. It has the tail's rules: committed
// segments of one incarnation, immutable; "here it is", or nothing at all.
//
//	tail, evicting ─► offer ─► bounded queue ─► run ─► newest file … oldest file, dropped whole
//
// The files are unlinked as soon as they are open, so nothing is left of a broker
// that ends in whatever way, and nothing is ever read that another one wrote. At
// a high rate they are dropped before the kernel would write them to the disk.
//
// Unlike the tail's, a partition's run may have gaps: what was offered while
// the queue was full, what is small, what could not be written.
type spill struct {
	dir      string // of the files; empty: nothing is kept
	bytesMax int64  // of all files
	fileMax  int64  // of one
	bytesMin int64  // of a segment
	log      *slog.Logger
	queue    chan spilling
	queued   atomic.Int64 // bytes in queue
	buf      []byte       // run's, to gather what is written together
	// forgets counts what was forgotten: what was evicted before is not added after.
	forgets atomic.Int64

	mu    sync.RWMutex
	runs  map[int64][]spilled // by partition, ascending
	files []*spillFile        // oldest first; the last one is written to
	bytes int64               // of all files
}

// The bounds of what is kept beside the files.
const (
	spillQueueBytesMax = 4 << 20
	// spillBytesMin is the smallest segment worth its entry of 80 bytes.
	spillBytesMin = 16 << 10
	spillFileMax  = 64 << 20
)

// spilling is a segment on its way.
type spilling struct {
	partition   int64
	incarnation int32
	segment     *segment
	forgets     int64
}

// spilled says where a segment lies.
type spilled struct {
	base, end    int64
	createdAt    int64 // µs
	at           int64
	file         *spillFile
	header, data int32 // lengths, one after the other
	epoch        int32
	incarnation  int32
}

// spillFile is one file. Whoever reads it holds mu for reading, so that its
// number is not used for another one meanwhile.
type spillFile struct {
	mu         sync.RWMutex
	f          *os.File // nil: dropped
	size       int64
	partitions map[int64]struct{}
}

func newSpill(dir string, bytesMax int64, log *slog.Logger) *spill {
	return &spill{
		dir: dir, bytesMax: bytesMax, fileMax: min(spillFileMax, max(1, bytesMax/4)), bytesMin: spillBytesMin, log: log,
		queue: make(chan spilling, 1024), runs: make(map[int64][]spilled),
	}
}

// offer takes a segment the tail lets go of, unless it would have to wait. The
// caller holds the lock under which the partition is forgotten.
func (s *spill) offer(partition int64, incarnation int32, seg *segment) {
	n := int64(len(seg.data))
	if s.dir == "" || n < s.bytesMin || n > s.fileMax || s.queued.Load()+n > spillQueueBytesMax {
		return
	}
	s.queued.Add(n)
	select {
	case s.queue <- spilling{partition: partition, incarnation: incarnation, segment: seg, forgets: s.forgets.Load()}:
	default:
		s.queued.Add(-n)
	}
}

// run writes what was offered, until done is closed; then the files go.
func (s *spill) run(done <-chan struct{}) {
	defer s.dropAll()
	for {
		select {
		case <-done:
			return
		case one := <-s.queue:
			if err := s.write(one); err != nil {
				// A full or broken disk: begin anew, with what comes in a while.
				s.log.Warn("what leaves the tail is not kept for now", "error", err)
				s.dropAll()
				select {
				case <-done:
					return
				case <-time.After(spillPause):
				}
			}
			s.queued.Add(-int64(len(one.segment.data)))
		}
	}
}

// spillPause is how long nothing is written after an error.
const spillPause = 30 * time.Second

// write appends a segment to the newest file. run alone calls it.
func (s *spill) write(one spilling) error {
	seg := one.segment
	if s.buf == nil {
		s.buf = make([]byte, 0, 5*spillWriteMin)
	}
	header := seg.header().AppendTo(s.buf) // and small batches behind it
	n := int64(len(header) + len(seg.data))
	file, err := s.room(n)
	if err != nil {
		return err
	}
	at := file.size
	if err := file.write(at, header, seg.batches); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file.size += n
	s.bytes += n
	run := s.runs[one.partition]
	if one.forgets != s.forgets.Load() || len(run) > 0 && seg.base <= run[len(run)-1].end {
		return nil // forgotten, or there already
	}
	file.partitions[one.partition] = struct{}{}
	s.runs[one.partition] = append(run, spilled{
		base: seg.base, end: seg.end, createdAt: seg.createdAt.UnixMicro(), at: at, file: file,
		header: int32(len(header)), data: int32(len(seg.data)), epoch: seg.epoch, incarnation: one.incarnation,
	})
	return nil
}

// spillWriteMin is the size from which a batch is written by itself; smaller ones
// are copied together first.
const spillWriteMin = 32 << 10

func (file *spillFile) write(at int64, header []byte, batches []segmentBatch) error {
	buf := header
	flush := func(b []byte) error {
		n, err := file.f.WriteAt(b, at)
		at += int64(n)
		return err
	}
	for i := range batches {
		b := batches[i].data
		if len(b) < spillWriteMin && len(buf) < 4*spillWriteMin {
			buf = append(buf, b...)
			continue
		}
		if err := flush(buf); err != nil {
			return err
		}
		buf = buf[:0]
		if len(b) < spillWriteMin {
			buf = append(buf, b...)
		} else if err := flush(b); err != nil {
			return err
		}
	}
	return flush(buf)
}

// room is a file with room for n bytes, after the oldest have made it.
func (s *spill) room(n int64) (*spillFile, error) {
	if k := len(s.files); k > 0 && s.files[k-1].size+n <= s.fileMax {
		return s.files[k-1], nil
	}
	for len(s.files) > 0 && s.bytes+s.fileMax > s.bytesMax {
		s.dropOldest()
	}
	f, err := os.CreateTemp(s.dir, "tail-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file := &spillFile{f: f, partitions: make(map[int64]struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, file)
	return file, nil
}

func (s *spill) dropOldest() {
	s.mu.Lock()
	file := s.files[0]
	s.files = slices.Delete(s.files, 0, 1)
	s.bytes -= file.size
	for p := range file.partitions {
		run := slices.DeleteFunc(s.runs[p], func(e spilled) bool { return e.file == file })
		if len(run) == 0 {
			delete(s.runs, p)
		} else {
			s.runs[p] = run
		}
	}
	s.mu.Unlock()
	file.mu.Lock() // whoever still reads it is done then
	defer file.mu.Unlock()
	_ = file.f.Close()
	file.f = nil
}

func (s *spill) dropAll() {
	for len(s.files) > 0 {
		s.dropOldest()
	}
}

// forget drops a partition's segments. The caller holds the lock under which they
// are offered.
func (s *spill) forget(partition int64) {
	s.forgets.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, partition)
}

// forgetBelow drops those that begin below start, and, as forget does, what is on its way.
func (s *spill) forgetBelow(partition, start int64) {
	s.forgets.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[partition]
	n := sort.Search(len(run), func(i int) bool { return run[i].base >= start })
	if n == len(run) {
		delete(s.runs, partition)
		return
	}
	clear(run[:n])
	s.runs[partition] = run[n:]
}

// forgetAll drops everything but the files, which are overwritten by and by.
func (s *spill) forgetAll() {
	s.forgets.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.runs)
}

// segments reads the one that holds offset and those that follow it, up to maxBytes,
// and at least one; none where it is not kept. The rows they lie in are the caller's,
// who may recycle them.
func (s *spill) segments(partition int64, incarnation int32, offset int64, maxBytes int) (segs []*segment, rows [][]byte, err error) {
	for _, e := range s.find(partition, incarnation, offset, maxBytes) {
		seg, row, err := e.read()
		if err != nil {
			s.forget(partition)
			return segs, rows, fmt.Errorf("read what left the tail: %w", err)
		}
		if seg == nil { // dropped meanwhile
			break
		}
		segs, rows = append(segs, seg), append(rows, row)
	}
	return segs, rows, nil
}

// find is where the segments lie.
func (s *spill) find(partition int64, incarnation int32, offset int64, maxBytes int) []spilled {
	s.mu.RLock()
	defer s.mu.RUnlock()
	run := s.runs[partition]
	i := sort.Search(len(run), func(i int) bool { return run[i].end >= offset })
	if i == len(run) || run[i].base > offset {
		return nil
	}
	n, j := int64(0), i
	for ; j < len(run) && run[j].incarnation == incarnation && (j == i || run[j].base == run[j-1].end+1); j++ {
		if n += int64(run[j].data); n > int64(maxBytes) && j > i {
			break
		}
	}
	return slices.Clone(run[i:j])
}

// read loads one segment; nil where its file is gone.
func (e *spilled) read() (*segment, []byte, error) {
	e.file.mu.RLock()
	defer e.file.mu.RUnlock()
	if e.file.f == nil {
		return nil, nil, nil
	}
	row := store.Borrow(int(e.header + e.data))[:e.header+e.data]
	if _, err := e.file.f.ReadAt(row, e.at); err != nil {
		return nil, nil, err
	}
	seg, err := loadSegment(e.base, e.end, e.epoch, time.UnixMicro(e.createdAt), row[:e.header:e.header], row[e.header:])
	return seg, row, err
}
