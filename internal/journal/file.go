package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// File is a file that records are appended to, while it may be read. One process at a time has it open.
type File struct {
	f     self.File
	every time.Duration

	mu      sync.Mutex
	size    int64 // of the whole records
	first   int64 // where the first of them ends
	dropped int64 // bytes behind them, by Scan
	synced  int64 // what the disk has for sure
	out     bufio.Writer
	err     error // the first one, or errUnread; it lasts
	noted   int64 // where the last note of that ends
	closed  bool
	timer   *time.Timer
	syncing sync.WaitGroup
}

// ErrOpen is the error of opening a file that another process, or this one, has open.
var ErrOpen = errors.New("another program, or another call, has it open")

// ErrClosed is the error of Append after Close.
var ErrClosed = errors.New("it is closed")

// Open opens a file, or makes one, for records that are on the disk after a time; 0 means before Append returns.
func Open(path string, every time.Duration) (*File, error) {
	d := disk()
	f, err := d.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil {
		err = lock(f)
	}
	if err == nil && info.Size() == 0 { // its name, too, is to outlive the machine
		err = d.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{f: f, every: every, err: errUnread}, nil
}

func lock(f self.File) error {
	err := f.Lock()
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrOpen
	case err != nil:
		return fmt.Errorf("its file system has no locks, which keep two programs apart; use another one: %w", err)
	}
	return nil
}

// errUnread keeps a file as it is that was not read to its end.
var errUnread = errors.New("Scan has not read the file")

// Scan calls each with all records and where they are, in their order. What the end of a program has cut off, or the
// machine's end before the disk had it, is dropped, with everything behind it. What the disk had and is damaged is an
// ErrDamaged with its place. Call it once, before Append.
func (j *File) Scan(each func(offset int64, frames [][]byte) error) error {
	end, err := scan(j.f, each, func(whole, synced int64) {
		if j.size == 0 {
			j.first = whole
		}
		j.size, j.synced = whole, max(j.synced, synced)
	})
	if err != nil {
		return err
	}
	j.dropped = end - j.size
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	j.err = nil
	return nil
}

// Dropped is how many bytes Scan has dropped.
func (j *File) Dropped() int64 { return j.dropped }

// Look calls each as Scan does, for a file that others may have open. It changes nothing.
func Look(path string, each func(offset int64, frames [][]byte) error) error {
	f, err := disk().OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = scan(f, each, func(int64, int64) {})
	return err
}

// scan calls whole with the end of each whole record, before it calls each, and with what notes say of the disk. It returns the
// end of the file.
func scan(f self.File, each func(offset int64, frames [][]byte) error, whole func(end, synced int64)) (end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end = info.Size()
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, end), 1<<20)
	first := int64(0) // where the first record ends
	for offset := int64(0); offset < end; {
		frames, synced, next, err := read(in, offset, end)
		if errors.Is(err, ErrDamaged) {
			upto, err := lastSynced(f, first, offset, end)
			begin := make([]byte, min(64<<10, end))
			if _, failed := f.ReadAt(begin, 0); err == nil {
				err = failed
			}
			switch {
			case err != nil:
				return 0, err
			case upto > offset:
				return 0, fmt.Errorf("at byte %d %w", offset, ErrDamaged)
			case offset == 0 && !ours(begin):
				return 0, ErrForeign
			}
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		if offset == 0 {
			first = next
		}
		whole(next, synced)
		if frames != nil {
			if err := each(offset, frames); err != nil {
				return 0, err
			}
		}
		offset = next
	}
	return end, nil
}

// Read reads the record at a place that Scan or Append has named.
func (j *File) Read(offset int64) ([][]byte, error) {
	j.mu.Lock()
	size := j.size
	j.mu.Unlock()
	frames, _, _, err := read(io.NewSectionReader(j.f, offset, size-offset), offset, size)
	if err == nil && frames == nil {
		err = ErrDamaged
	}
	return frames, err
}

// Append appends a record. The error is that of the disk, or of one before: a file whose disk has failed takes nothing more.
func (j *File) Append(frames ...[]byte) (offset int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, ErrClosed
	}
	if j.err != nil {
		return 0, j.err
	}
	offset = j.size
	if err := j.write(func(w io.Writer) (int64, error) { return Write(w, offset, frames...) }); err != nil {
		return 0, err
	}
	if offset == 0 {
		j.first = j.size
	}
	if j.every == 0 || offset == 0 { // the beginning says whose file it is, whatever a crash leaves of the rest
		return offset, j.sync()
	}
	if j.timer == nil {
		j.syncing.Add(1)
		j.timer = self.AfterFunc(j.every, func() {
			defer j.syncing.Done()
			j.mu.Lock()
			defer j.mu.Unlock()
			j.timer = nil
			_ = j.sync() // Append and Close return the error
		})
	}
	return offset, nil
}

// write writes at the end; mu is held. What could not be written whole is taken back.
func (j *File) write(put func(w io.Writer) (size int64, err error)) error {
	j.out.Reset(io.NewOffsetWriter(j.f, j.size))
	size, _ := put(&j.out)
	if err := j.out.Flush(); err != nil { // also that of put
		j.err = err
		_ = j.f.Truncate(j.size)
		return err
	}
	j.size += size
	return nil
}

// sync waits until the disk has what was written, and notes that; mu is held, but for the wait.
func (j *File) sync() error {
	upto := j.size
	if j.err != nil || upto == j.synced || upto == j.noted {
		return j.err
	}
	j.mu.Unlock()
	err := j.f.Sync()
	j.mu.Lock()
	if err != nil && j.err == nil { // the system may take for written what the disk does not have
		j.err = err
		j.size = j.synced
		_ = j.f.Truncate(j.size)
	}
	if j.err != nil {
		return j.err
	}
	var id uint32
	if id, j.err = fileID(j.f, j.first); j.err != nil {
		return j.err
	}
	text := note{Upto: upto, At: j.size, File: id}.encode()
	if err := j.write(func(w io.Writer) (int64, error) { n, err := w.Write(text); return int64(n), err }); err != nil {
		return err
	}
	j.synced, j.noted = max(j.synced, upto), j.size
	return nil
}

// Close waits until the disk has all records, and closes the file. The error is that of the disk.
func (j *File) Close() error {
	j.mu.Lock()
	j.closed = true
	if j.timer != nil && j.timer.Stop() {
		j.timer = nil
		j.syncing.Done()
	}
	j.mu.Unlock()
	j.syncing.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.sync()
	if err == errUnread {
		err = nil
	}
	return errors.Join(err, j.f.Close())
}

// read reads the record, or the note, that begins at an offset, of a file that ends at end, and returns where the next
// one begins. A note has no frames, and says up to where the disk has the file. The error is ErrDamaged, or that of the disk.
func read(in io.Reader, offset, end int64) (frames [][]byte, synced, next int64, err error) {
	damaged := func(err error) error {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return ErrDamaged
		}
		return err
	}
	head := make([]byte, 8, 64)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, 0, 0, damaged(err)
	}
	size := int64(notedSize)
	switch binary.BigEndian.Uint32(head) {
	case noted:
	case mark:
		n := int64(binary.BigEndian.Uint32(head[4:]))
		if n > maxFrames || offset+8+8*n > end {
			return nil, 0, 0, ErrDamaged
		}
		head = append(head, make([]byte, 8*n)...)
		if _, err := io.ReadFull(in, head[8:]); err != nil {
			return nil, 0, 0, damaged(err)
		}
		size = 8 + 8*n + 4
		for i := range n {
			length := binary.BigEndian.Uint64(head[8+8*i:])
			if length > uint64(end) {
				return nil, 0, 0, ErrDamaged
			}
			size += int64(length)
		}
	default:
		return nil, 0, 0, ErrDamaged
	}
	if offset+size > end {
		return nil, 0, 0, ErrDamaged
	}
	record := make([]byte, size)
	copy(record, head)
	if _, err := io.ReadFull(in, record[len(head):]); err != nil {
		return nil, 0, 0, damaged(err)
	}
	if len(head) == 8 && size == notedSize && binary.BigEndian.Uint32(head) == noted {
		var n note
		if n, err = noteIn(record); err == nil && n.At != offset {
			err = ErrDamaged
		}
		synced = n.Upto
	} else {
		frames, _, err = Next(record, offset)
	}
	return frames, synced, offset + size, err
}

// note says up to where the disk has the file for sure, where it is itself, and of which file it is: the checksum of the first
// record. A note that is elsewhere says that something is missing before it, or too much. Another file's may be in a record.
type note struct {
	Mark     uint32
	Upto, At int64
	File     uint32
	Sum      uint32 // of all that
}

const (
	noted     = 0xf1b3_0002
	notedSize = 28
)

// fileID returns the checksum of a file's first record, which ends at first.
func fileID(f self.File, first int64) (uint32, error) {
	id := make([]byte, 4)
	_, err := f.ReadAt(id, first-4)
	return binary.BigEndian.Uint32(id), err
}

func (n note) encode() []byte {
	n.Mark = noted
	b, _ := binary.Append(nil, binary.BigEndian, n) // of a fixed size: no error
	return binary.BigEndian.AppendUint32(b[:notedSize-4], sum(n.At, b[:notedSize-4]))
}

func noteIn(b []byte) (n note, err error) {
	if len(b) < notedSize {
		return n, ErrDamaged
	}
	_, err = binary.Decode(b, binary.BigEndian, &n)
	if err != nil || n.Mark != noted || n.Sum != sum(n.At, b[:notedSize-4]) {
		err = ErrDamaged
	}
	return n, err
}

// lastSynced returns up to where the notes behind a place say that the disk has the file. Its first record, which says which
// file's notes count, ends at first; if it is 0, all do.
func lastSynced(f self.File, first, from, end int64) (upto int64, err error) {
	id := uint32(0)
	if first > 0 {
		if id, err = fileID(f, first); err != nil {
			return 0, err
		}
	}
	prefix := binary.BigEndian.AppendUint32(nil, noted)
	chunk := make([]byte, 1<<20)
	for from < end {
		n, err := f.ReadAt(chunk[:min(int64(len(chunk)), end-from)], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		for at := 0; ; at++ {
			i := bytes.Index(chunk[at:n], prefix)
			if i < 0 {
				break
			}
			at += i
			if found, err := noteIn(chunk[at:n]); err == nil && (first == 0 || found.File == id) {
				upto = max(upto, found.Upto)
			}
		}
		if n < notedSize {
			break
		}
		from += int64(n - notedSize + 1)
		if from+notedSize > end {
			break
		}
	}
	return upto, nil
}
