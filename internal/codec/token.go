package codec

import (
	"encoding/binary"
	"fmt"
)

// class is the kind of value that a token begins.
type class byte

const (
	classNil class = iota
	classBool
	classInt
	classUint
	classFloat
	classString
	classBinary
	classArray
	classMap
	classExt
	classBoxed
)

var classNames = [...]string{"nil", "a bool", "an integer", "an integer", "a float", "a string",
	"bytes", "an array", "a map", "an extension", "a pointer to nil"}

func (c class) String() string { return classNames[c] }

// token is the head of one msgpack value; its length has been checked against the bytes that are left.
type token struct {
	class class
	sub   int8   // which extension, or the width of a number in bytes
	bits  uint64 // a number or bool
	n     int    // bytes, elements or entries that follow
}

func (t token) String() string {
	if t.class == classExt {
		return fmt.Sprintf("extension %d", t.sub)
	}
	return t.class.String()
}

// token reads the head of the next value.
func (d *decoder) token() (token, error) {
	left := d.left()
	if left == 0 {
		return token{}, errShort()
	}
	c := d.buf[d.pos]
	d.pos++
	t := token{}
	switch {
	case c < codeFixedMap || c >= codeNegative:
		return token{class: classInt, sub: 1, bits: uint64(int8(c))}, nil
	case c >= codeNil:
		return d.tail(c)
	case c >= codeFixedString:
		t = token{class: classString, n: int(c - codeFixedString)}
	case c >= codeFixedArray:
		t = token{class: classArray, n: int(c - codeFixedArray)}
	default:
		t = token{class: classMap, n: int(c - codeFixedMap)}
	}
	if t.n >= left || t.class == classMap && 2*t.n >= left {
		return t, errShort()
	}
	return t, nil
}

// tail reads the rest of a head whose code has no value in its low bits.
func (d *decoder) tail(c byte) (token, error) {
	switch c {
	case codeNil:
		return token{class: classNil}, nil
	case codeBoxed:
		return token{class: classBoxed}, nil
	case codeFalse, codeTrue:
		return token{class: classBool, bits: uint64(c - codeFalse)}, nil
	case codeFloat32, codeFloat64:
		return d.wide(classFloat, 4<<(c-codeFloat32))
	case codeUint8, codeUint16, codeUint32, codeUint64:
		return d.wide(classUint, 1<<(c-codeUint8))
	case codeInt8, codeInt16, codeInt32, codeInt64:
		t, err := d.wide(classInt, 1<<(c-codeInt8))
		shift := 64 - 8*int(t.sub)
		t.bits = uint64(int64(t.bits<<shift) >> shift)
		return t, err
	case codeStr8, codeStr16, codeStr32:
		return d.long(classString, 1<<(c-codeStr8))
	case codeBin8, codeBin16, codeBin32:
		return d.long(classBinary, 1<<(c-codeBin8))
	case codeArray16, codeArray32:
		return d.long(classArray, 2<<(c-codeArray16))
	case codeMap16, codeMap32:
		return d.long(classMap, 2<<(c-codeMap16))
	case codeExt8, codeExt16, codeExt32:
		return d.long(classExt, 1<<(c-codeExt8))
	default:
		return d.sized(token{class: classExt, n: 1 << (c - codeFixExt1)})
	}
}

// wide reads a number of width bytes.
func (d *decoder) wide(c class, width byte) (token, error) {
	n, ok := d.number(int(width))
	if !ok {
		return token{}, errShort()
	}
	return token{class: c, sub: int8(width), bits: n}, nil
}

// long reads a length of width bytes.
func (d *decoder) long(c class, width int) (token, error) {
	n, ok := d.number(width)
	if !ok || n > uint64(d.left()) {
		return token{}, errShort()
	}
	return d.sized(token{class: c, n: int(n)})
}

// sized reads an extension's type and checks the length. Each element takes at least a byte, so a
// length beyond the message is refused before memory is taken for it.
func (d *decoder) sized(t token) (token, error) {
	if t.class == classExt {
		id, ok := d.number(1)
		if !ok {
			return t, errShort()
		}
		t.sub = int8(id)
	}
	if left := d.left(); t.n > left || t.class == classMap && t.n > left/2 {
		return t, errShort()
	}
	return t, nil
}

// number reads n big-endian bytes.
func (d *decoder) number(n int) (uint64, bool) {
	if d.left() < n {
		return 0, false
	}
	b := d.take(n)
	switch n {
	case 1:
		return uint64(b[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), true
	default:
		return binary.BigEndian.Uint64(b), true
	}
}

func errShort() error { return fail(nil, "the message ends too early") }
