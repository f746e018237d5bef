// Package journal reads and writes records that outlive the program, in files. Each record says how long it is and has
// a checksum, so that what a crash has left behind is told from what was written.
package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A record is its mark, the number of its frames, their lengths, and they, and the checksum of all that and of the
// record's place in the file: a record in a record is not taken for one.
const mark = 0xf1b3_0001

// maxFrames bounds the frames of a record.
const maxFrames = 1 << 20

var table = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is the error of reading what is no record, or not all of one.
var ErrDamaged = errors.New("it is damaged")

// Write writes a record that begins at an offset of its file, and returns its size.
func Write(w io.Writer, offset int64, frames ...[]byte) (size int64, err error) {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 8+8*len(frames)), mark)
	head = binary.BigEndian.AppendUint32(head, uint32(len(frames)))
	for _, f := range frames {
		head = binary.BigEndian.AppendUint64(head, uint64(len(f)))
	}
	crc := sum(offset, head)
	for _, f := range frames {
		crc = crc32.Update(crc, table, f)
	}
	for _, part := range slices.Concat([][]byte{head}, frames, [][]byte{binary.BigEndian.AppendUint32(nil, crc)}) {
		if _, err := w.Write(part); err != nil {
			return 0, err
		}
		size += int64(len(part))
	}
	return size, nil
}

// sum returns the checksum of a record, or of its beginning.
func sum(offset int64, record []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.BigEndian.AppendUint64(nil, uint64(offset)), table), table, record)
}

// Next reads the record at the beginning of the part of a file that begins at an offset, and returns what follows
// it. The frames share the memory of file. The error is io.EOF at the end, or ErrDamaged.
func Next(file []byte, offset int64) (frames [][]byte, rest []byte, err error) {
	if len(file) == 0 {
		return nil, nil, io.EOF
	}
	if len(file) < 8 || binary.BigEndian.Uint32(file) != mark {
		return nil, nil, ErrDamaged
	}
	n, left := binary.BigEndian.Uint32(file[4:]), file[8:]
	if n > maxFrames || uint64(len(left)) < 8*uint64(n) {
		return nil, nil, ErrDamaged
	}
	lengths, left := left[:8*n], left[8*n:]
	frames = make([][]byte, n)
	for i := range frames {
		size := binary.BigEndian.Uint64(lengths[8*i:])
		if size > uint64(len(left)) {
			return nil, nil, ErrDamaged
		}
		frames[i], left = left[:size:size], left[size:]
	}
	record := file[:len(file)-len(left)]
	if len(left) < 4 || binary.BigEndian.Uint32(left) != sum(offset, record) {
		return nil, nil, ErrDamaged
	}
	return frames, left[4:], nil
}

// before is what the version before the last is called.
const before = ".before"

// Replace writes a file of records, each of some frames, in the place of the one that is there, which it keeps as the
// version before. Whenever the program or the machine ends, one of the two is whole: see Load. The first frame is the kind of
// file; a file of another kind stays as it is, and is an ErrForeign.
func Replace(path, kind string, records ...[][]byte) (err error) {
	path = target(path)
	_, damaged := readAll(path, kind)
	if errors.Is(damaged, ErrForeign) {
		return damaged
	}
	mode := fs.FileMode(0o644)
	if old, err := os.Stat(path); err == nil {
		mode = old.Mode().Perm()
	}
	next := path + ".new"
	d := disk()
	f, err := d.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.Remove(next)
		}
	}()
	out, size := bufio.NewWriter(io.NewOffsetWriter(f, 0)), int64(0)
	for i, frames := range records {
		if i == 0 {
			frames = slices.Insert(slices.Clip(frames), 0, []byte(kind))
		}
		n, _ := Write(out, size, frames...) // Flush returns the error
		size += n
	}
	if err = out.Flush(); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if damaged == nil { // else the version before is the better one
		_ = d.Remove(path + before)
		if d.Link(path, path+before) != nil { // some file systems have no links
			if err = d.Rename(path, path+before); err != nil {
				return err
			}
		}
	}
	if err = d.Rename(next, path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// target returns the file that a path leads to.
func target(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// Load reads a file that Replace has written. If it is damaged or missing, Load returns the version before, and why. The
// error is fs.ErrNotExist if there is neither.
func Load(path, kind string) (records [][][]byte, instead, err error) {
	path = target(path)
	if records, err = readAll(path, kind); err == nil {
		return records, nil, nil
	}
	instead = err
	if records, err = readAll(path+before, kind); err == nil {
		return records, instead, nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(instead, ErrForeign) {
		return nil, nil, instead
	}
	return nil, nil, fmt.Errorf("%w; and %v", err, instead) // not as if there were none
}

func readAll(path, kind string) (records [][][]byte, err error) {
	f, err := disk().OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var whole int64
	end, err := scan(f, func(offset int64, frames [][]byte) error {
		if offset == 0 {
			if len(frames) == 0 || string(frames[0]) != kind {
				return ErrForeign
			}
			frames = frames[1:]
		}
		records = append(records, frames)
		return nil
	}, func(end, _ int64) { whole = end })
	if err == nil && (whole < end || end == 0) {
		err = fmt.Errorf("at byte %d %w", whole, ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return records, nil
}

// ErrForeign is the error of a file that holds something else. It stays as it is.
var ErrForeign = errors.New("it is another kind of file")

// ours reports whether a file without a whole record begins like one, or has nothing but the zeros that a machine's end may leave.
func ours(file []byte) bool {
	zeros := len(bytes.Trim(file, "\x00")) == 0
	return zeros || bytes.HasPrefix(binary.BigEndian.AppendUint32(nil, mark), file[:min(4, len(file))])
}
