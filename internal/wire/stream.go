package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fiber-go/fiber/internal/codec"
)

// maxFields bounds the bytes of encoded fields. Most of those of a request are an
// environment, which no system lets grow beyond 6 MiB.
const maxFields = 8 << 20

// Write writes fields to a stream of bytes, with their length before them.
func Write(w io.Writer, fields any) error {
	body, err := codec.Marshal(fields)
	if err != nil || len(body) != 1 || len(body[0]) > maxFields {
		return fmt.Errorf("fiber: encoding %T: %w", fields, errors.Join(err, ErrMalformed))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body[0]))), body[0]...))
	return err
}

// Read reads what Write has written, and nothing after it. It allocates memory
// only as the bytes come.
func Read(r io.Reader, fields any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFields {
		return fmt.Errorf("%w: fields of %d bytes", ErrMalformed, n)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		return err
	}
	if err := codec.Unmarshal([][]byte{body.Bytes()}, fields); err != nil {
		return fmt.Errorf("%w: %T: %v", ErrMalformed, fields, err)
	}
	return nil
}
