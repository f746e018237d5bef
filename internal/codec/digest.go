package codec

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Digests returns a digest of each element of a slice. Elements that encode alike have the same digest, on any
// machine and in any order of their maps' entries; others have another one, but for one in 2^64. Of an element that
// cannot be encoded the digest is 0, and failed has its error, in the order of the elements. For list, see
// MarshalListing.
func Digests(v reflect.Value, listed func(x any) bool) (digests []uint64, list []any, failed []*Error) {
	digests = make([]uint64, v.Len())
	if r, ok := runOf(v.Type().Elem()); ok {
		b, size := toWire(r, v), r.size()
		for i := range digests {
			digests[i] = xxhash.Sum64(b[i*size : (i+1)*size])
		}
		return digests, nil, nil
	}
	e := getEncoder()
	defer e.put()
	e.listed, e.sorted = listed, true
	elem := planOf(v.Type().Elem())
	for i := range digests {
		e.buf.Reset()
		e.depth = 0
		if err := elem.encode(e, v.Index(i)); err != nil {
			failed = append(failed, inElement(err, i, true).(*Error))
			continue
		}
		digests[i] = xxhash.Sum64(e.buf.Bytes())
	}
	return digests, e.listing, failed
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
