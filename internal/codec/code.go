package codec

// The codes of msgpack, https://github.com/msgpack/msgpack/blob/master/spec.md. Fixed maps, arrays and
// strings have their length, and fixed integers their value, in the low bits.
const (
	codeFixedMap    = 0x80
	codeFixedArray  = 0x90
	codeFixedString = 0xa0

	codeNil   = 0xc0
	codeBoxed = 0xc1 // unused in msgpack; here it precedes a nil that a pointer points to
	codeFalse = 0xc2
	codeTrue  = 0xc3

	codeBin8, codeBin16, codeBin32                = 0xc4, 0xc5, 0xc6
	codeExt8, codeExt16, codeExt32                = 0xc7, 0xc8, 0xc9
	codeFloat32, codeFloat64                      = 0xca, 0xcb
	codeUint8, codeUint16, codeUint32, codeUint64 = 0xcc, 0xcd, 0xce, 0xcf
	codeInt8, codeInt16, codeInt32, codeInt64     = 0xd0, 0xd1, 0xd2, 0xd3
	codeFixExt1                                   = 0xd4 // and, up to 0xd8, 2, 4, 8 and 16 bytes
	codeStr8, codeStr16, codeStr32                = 0xd9, 0xda, 0xdb
	codeArray16, codeArray32                      = 0xdc, 0xdd
	codeMap16, codeMap32                          = 0xde, 0xdf

	codeNegative = 0xe0 // and above: -32 to -1
)

// The extension types of the first frame. They are private to this package: registering them with msgpack
// would affect the program's other uses of it.
const (
	extNumbers = int8(iota + 1) // a kind, a width if the kind says so, and the numbers
	extFrame                    // a kind, a width if the kind says so; the numbers are the next frame
	extTime                     // see appendTime
	extComplex                  // two big-endian floats
	extCustom                   // what a type's own msgpack methods wrote
)
