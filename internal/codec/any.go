package codec

import (
	"encoding/binary"
	"reflect"
)

// encodeAny writes the value in the interface v by its dynamic type.
func encodeAny(e *encoder, v reflect.Value) error { return e.any(v.Elem()) }

// decodeAny reads a value whose type follows from the bytes.
func decodeAny(d *decoder, v reflect.Value) error {
	x, err := d.any()
	if err != nil {
		return typed(err, v.Type())
	}
	if x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return nil
}

func (e *encoder) any(v reflect.Value) error {
	if !v.IsValid() {
		return e.EncodeNil()
	}
	return planOf(v.Type()).encode(e, v)
}

// any reads the next value, of whatever type.
func (d *decoder) any() (any, error) {
	switch c, _ := d.next(); c {
	case classArray:
		return as[[]any](d)
	case classMap:
		return d.table()
	case classBoxed:
		x, err := as[*any](d)
		if err != nil {
			return nil, err
		}
		return *x, nil
	case classString:
		return as[string](d)
	case classBinary:
		return as[[]byte](d)
	case classExt:
		return d.anyExtension()
	}
	x, err := d.DecodeInterface()
	if err != nil {
		return nil, short(nil)
	}
	return x, nil
}

// as reads a value as a T.
func as[T any](d *decoder) (x T, err error) {
	v := reflect.ValueOf(&x).Elem()
	err = planOf(v.Type()).decode(d, v)
	if e, ok := err.(*Error); ok && e.Path == "" && e.Index < 0 {
		e.Type = "" // the reader asked for an any
	}
	return x, err
}

// table reads a map: a map[string]any, or a map[any]any if a key is not a string.
func (d *decoder) table() (any, error) {
	table, err := as[map[any]any](d)
	if err != nil {
		return nil, err
	}
	named := make(map[string]any, len(table))
	for k, x := range table {
		s, ok := k.(string)
		if !ok {
			return table, nil
		}
		named[s] = x
	}
	return named, nil
}

func (d *decoder) anyExtension() (any, error) {
	id, b, err := d.extension(nil)
	if err != nil {
		return nil, err
	}
	switch {
	case id == extNumbers, id == extFrame:
		return d.anyNumbers(id, b)
	case id == extTime:
		return decodeTime(b)
	case id == extComplex && len(b) == 8:
		var c complex64
		_, err := binary.Decode(b, binary.BigEndian, &c)
		return c, err
	case id == extComplex && len(b) == 16:
		var c complex128
		_, err := binary.Decode(b, binary.BigEndian, &c)
		return c, err
	case id == extCustom:
		return d.anyCustom(b)
	}
	return nil, fail(nil, "found extension %d of %d bytes", id, len(b))
}

// anyNumbers reads runs: a slice of numbers, or a slice of such slices if they
// are rows.
func (d *decoder) anyNumbers(id int8, b []byte) (any, error) {
	r, b, err := d.run(id, b)
	if err != nil {
		return nil, err
	}
	row := func(b []byte) (any, error) {
		v := reflect.New(sliceTypes[r.kind]).Elem()
		err := setNumbers(v, run{r.kind, 1}, b, id == extFrame)
		return v.Interface(), err
	}
	if r.width == 1 {
		return row(b)
	}
	rows := make([]any, len(b)/r.size())
	for i := range rows {
		if rows[i], err = row(b[i*r.size():][:r.size()]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// anyCustom reads an extCustom without its type. It returns the value that was
// written, or the list if there were several.
func (d *decoder) anyCustom(b []byte) (any, error) {
	inner := getDecoder([][]byte{b})
	defer inner.put()
	inner.depth = d.depth
	var list []any
	for inner.in.Len() > 0 {
		x, err := inner.any()
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return list, nil
}
