package codec

import "reflect"

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
		e.nil()
		return nil
	}
	return planOf(v.Type()).encode(e, v)
}

// any reads the next value, of whatever type.
func (d *decoder) any() (any, error) {
	tok, err := d.token()
	if err != nil {
		return nil, err
	}
	switch tok.class {
	case classArray, classMap, classBoxed:
		if err := d.enter(nil); err != nil {
			return nil, err
		}
		defer d.leave()
	}
	switch tok.class {
	case classNil:
		return nil, nil
	case classBoxed:
		return d.any()
	case classBool:
		return tok.bits == 1, nil
	case classInt, classUint, classFloat:
		return tok.number(), nil
	case classString:
		return string(d.take(tok.n)), nil
	case classArray:
		return d.list(tok.n)
	case classMap:
		return d.table(tok.n)
	case classBinary:
		return d.anyNumbers(tok)
	}
	switch tok.sub {
	case extNumbers, extFrame:
		return d.anyNumbers(tok)
	case extTime:
		t, err := decodeTime(d.take(tok.n))
		if err != nil {
			return nil, err
		}
		return t, nil
	case extComplex:
		switch b := d.take(tok.n); len(b) {
		case 8:
			return complex64(complexOf(b)), nil
		case 16:
			return complexOf(b), nil
		}
	case extCustom:
		return d.anyCustom(tok.n)
	}
	return nil, fail(nil, "found %s of %d bytes", tok, tok.n)
}

func (t token) number() any {
	switch {
	case t.class == classFloat && t.sub == 4:
		return float32(t.float())
	case t.class == classFloat:
		return t.float()
	case t.class == classInt:
		switch t.sub {
		case 1:
			return int8(t.bits)
		case 2:
			return int16(t.bits)
		case 4:
			return int32(t.bits)
		}
		return int64(t.bits)
	}
	switch t.sub {
	case 1:
		return uint8(t.bits)
	case 2:
		return uint16(t.bits)
	case 4:
		return uint32(t.bits)
	}
	return t.bits
}

func (d *decoder) list(n int) ([]any, error) {
	list := make([]any, 0, min(n, firstBytes/16))
	for i := range n {
		x, err := d.any()
		if err != nil {
			return nil, inElement(err, i, false)
		}
		list = append(list, x)
	}
	return list, nil
}

// table reads a map of n entries: a map[string]any, or a map[any]any if a key
// is not a string.
func (d *decoder) table(n int) (any, error) {
	named := make(map[string]any, min(n, firstBytes/32))
	var other map[any]any
	for range n {
		k, err := d.any()
		if err != nil {
			return nil, within(err, "[key]")
		}
		if !reflect.ValueOf(k).Comparable() {
			return nil, fail(nil, "found a key that is not comparable")
		}
		x, err := d.any()
		if err != nil {
			return nil, within(err, keyText(reflect.ValueOf(k)))
		}
		s, isString := k.(string)
		if !isString && other == nil {
			other = make(map[any]any, min(n, firstBytes/32))
			for k, x := range named {
				other[k] = x
			}
		}
		if other != nil {
			other[k] = x
		} else {
			named[s] = x
		}
	}
	if other != nil {
		return other, nil
	}
	return named, nil
}

// goTypes maps a kind of number to the slice type that a run of them becomes.
var goTypes = map[reflect.Kind]reflect.Type{
	reflect.Bool: reflect.TypeFor[[]bool](), reflect.Int: reflect.TypeFor[[]int](),
	reflect.Int8: reflect.TypeFor[[]int8](), reflect.Int16: reflect.TypeFor[[]int16](),
	reflect.Int32: reflect.TypeFor[[]int32](), reflect.Int64: reflect.TypeFor[[]int64](),
	reflect.Uint: reflect.TypeFor[[]uint](), reflect.Uint8: reflect.TypeFor[[]uint8](),
	reflect.Uint16: reflect.TypeFor[[]uint16](), reflect.Uint32: reflect.TypeFor[[]uint32](),
	reflect.Uint64: reflect.TypeFor[[]uint64](), reflect.Uintptr: reflect.TypeFor[[]uintptr](),
	reflect.Float32: reflect.TypeFor[[]float32](), reflect.Float64: reflect.TypeFor[[]float64](),
	reflect.Complex64: reflect.TypeFor[[]complex64](), reflect.Complex128: reflect.TypeFor[[]complex128](),
}

// anyNumbers reads runs: a slice of numbers, or a slice of such slices if they
// are rows.
func (d *decoder) anyNumbers(tok token) (any, error) {
	r, b, err := d.run(tok)
	if err != nil {
		return nil, err
	}
	row := func(b []byte) (any, error) {
		v := reflect.New(goTypes[r.kind]).Elem()
		if err := setNumbers(v, r.kind, b, tok.sub == extFrame); err != nil {
			return nil, err
		}
		return v.Interface(), nil
	}
	if r.width == 1 {
		return row(b)
	}
	rows := make([]any, 0, len(b)/r.size())
	for ; len(b) > 0; b = b[r.size():] {
		x, err := row(b[:r.size()])
		if err != nil {
			return nil, err
		}
		rows = append(rows, x)
	}
	return rows, nil
}
