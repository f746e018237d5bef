// Package kinds has types of all kinds.
package kinds

import (
	"encoding"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber"
)

type (
	Partly struct {
		A int
		b int
	}
	Nothing struct{ n int }
	small   int
	hidden  struct{ A int }
	Under   struct {
		Partly
		C int
	}
	Over struct {
		Nothing
		C int
	}
	Beside struct {
		small
		C int
	}
	Within struct {
		hidden
		c int
	}
	Through struct {
		*hidden
		C int
	}
	Twice struct {
		A int
		B int `msgpack:"A"`
	}
	locks struct {
		mu   sync.RWMutex
		once [2]sync.Once
		_    int
		tidy int `msgpack:"-"`
	}
	Busy struct {
		A       int
		mu      sync.Mutex
		hits    atomic.Int64
		last    atomic.Pointer[int]
		inside  locks
		private string `msgpack:"-"`
		empty   struct{}
		none    [0]int
		locks
		sync.WaitGroup
	}
	Group struct{ Wait sync.WaitGroup }
	Lock  struct{ Mutex sync.Mutex }
	Tree  struct {
		Left, Right *Tree
		hook        func()
	}
	Pair[K comparable, V any] struct {
		Key   K
		Value V
		extra V
	}
	Reader interface{ io.Reader }
	Failed = error

	Binary  struct{ a, b int }
	Text    struct{ a int }
	Msgpack struct{ f func() }
	Half    struct{ a int }
	Stamped struct {
		time.Time
		Name string
	}
	Sealed struct {
		Binary
		Name string
		n    int
	}
	Wrapped struct{ time.Time }
	Open    struct {
		encoding.TextMarshaler
		encoding.TextUnmarshaler
		Name string
	}
)

func (Binary) MarshalBinary() ([]byte, error)           { return nil, nil }
func (*Binary) UnmarshalBinary([]byte) error            { return nil }
func (Text) MarshalText() ([]byte, error)               { return nil, nil }
func (*Text) UnmarshalText([]byte) error                { return nil }
func (*Msgpack) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeNil() }
func (*Msgpack) DecodeMsgpack(d *msgpack.Decoder) error { return d.DecodeNil() }
func (Half) MarshalBinary() ([]byte, error)             { return nil, nil }

// Kinds has a field of each.
type Kinds struct {
	F01 int
	F02 []string
	F03 chan int
	F04 func(int) error
	F05 unsafe.Pointer
	F06 uintptr
	F07 error
	F08 any
	F09 Reader
	F10 Failed
	F11 map[string]chan<- int
	F12 map[Nothing]int
	F13 [2]*Nothing
	F14 Partly
	F15 []Partly
	F16 Nothing
	F17 Under
	F18 Over
	F19 Beside
	F20 Within
	F21 Through
	F22 Twice
	F23 Busy
	F24 Group
	F25 Lock
	F26 *Tree
	F27 Pair[string, []int]
	F28 Pair[int, chan int]
	F29 Binary
	F30 *Text
	F31 map[string]Msgpack
	F32 Half
	F33 Stamped
	F34 Sealed
	F35 Wrapped
	F36 Open
	F37 time.Time
	F38 *url.URL
	F39 struct{}
	F40 sync.Mutex
	F41 **Partly
	F42 *fiber.SimpleQueue[int]
	F43 fiber.Dict[string, func()]
	F44 *fiber.Pool
	F45 *fiber.Conn[string]
	F46 complex128
	F47 struct {
		_ int
		a int
	}
}
