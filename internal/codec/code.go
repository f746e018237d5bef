package codec

// codeBoxed is unused in msgpack; here it precedes a nil that a pointer points to.
const codeBoxed = 0xc1

// The extension types of the first frame. They are private to this package: registering them with msgpack
// would affect the program's other uses of it.
const (
	extNumbers = int8(iota + 1) // a kind, a width if the kind says so, and the numbers
	extFrame                    // a kind, a width if the kind says so; the numbers are the next frame
	extTime                     // see appendTime
	extComplex                  // two big-endian floats
	extCustom                   // what a type's own msgpack methods wrote
)
