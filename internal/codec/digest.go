package codec

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// DigestSize is the length of a digest.
const DigestSize = 8

// AppendDigests appends the digests of the elements of a slice, one behind the other. Elements that encode alike have the same
// digest, on any machine and in any order of their maps' entries; others have another one, but for one in 2^64. An element
// that cannot be encoded has a digest of zeros. For what listed does, and
// the list that is returned, see MarshalListing.
func AppendDigests(digests []byte, v reflect.Value, listed func(x any) bool) ([]byte, []any) {
	digests = slices.Grow(digests, v.Len()*DigestSize)
	if r, ok := runOf(v.Type().Elem()); ok {
		b, size := toWire(r, v), r.size()
		if size == 8 {
			n := len(digests)
			digests = digests[:n+len(b)]
			for i := 0; i < len(b); i += 8 {
				binary.LittleEndian.PutUint64(digests[n+i:], mixed(binary.LittleEndian.Uint64(b[i:])))
			}
			return digests, nil
		}
		for ; len(b) > 0; b = b[size:] {
			digests = binary.LittleEndian.AppendUint64(digests, xxhash.Sum64(b[:size]))
		}
		return digests, nil
	}
	e := getEncoder()
	defer e.put()
	e.listed, e.sorted = listed, true
	elem := planOf(v.Type().Elem())
	for i := range v.Len() {
		e.buf.Reset()
		e.depth = 0
		if elem.encode(e, v.Index(i)) == nil {
			digests = binary.LittleEndian.AppendUint64(digests, xxhash.Sum64(e.buf.Bytes()))
		} else {
			digests = append(digests, make([]byte, DigestSize)...)
		}
	}
	return digests, e.listing
}

// mixed is the finalizer of MurmurHash3, which has another result for each number.
func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// inOrder encodes the entries of a map in the order of their encoded keys.
func (e *encoder) inOrder(v reflect.Value, key *plan, entry func(e *encoder, k, x reflect.Value) error) error {
	type keyed struct {
		text    []byte
		key, of reflect.Value
	}
	var keys []keyed
	for it := v.MapRange(); it.Next(); {
		from := e.buf.Len()
		if err := key.encode(e, it.Key()); err != nil {
			return within(err, keyText(it.Key()))
		}
		keys = append(keys, keyed{bytes.Clone(e.buf.Bytes()[from:]), it.Key(), it.Value()})
		e.buf.Truncate(from)
	}
	slices.SortFunc(keys, func(a, b keyed) int { return bytes.Compare(a.text, b.text) })
	for _, k := range keys {
		if err := entry(e, k.key, k.of); err != nil {
			return err
		}
	}
	return nil
}
