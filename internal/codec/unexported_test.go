package codec_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

type (
	Partly struct {
		A int
		b int
	}
	Nothing struct{ n int }
	small   int
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
	counted struct {
		sync.Mutex
		n int
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
		pool    [2]sync.Pool
		all     [2]counted
		inside  locks
		private string `msgpack:"-"`
		_       int
		empty   struct{}
		locks
		sync.WaitGroup
	}
	Sealed struct {
		A int
		b int
	}
)

func (s Sealed) MarshalBinary() ([]byte, error)  { return []byte{byte(s.A), byte(s.b)}, nil }
func (s *Sealed) UnmarshalBinary(b []byte) error { s.A, s.b = int(b[0]), int(b[1]); return nil }

// A struct does not lose what is in its unexported fields without an error.
func TestUnexportedFields(t *testing.T) {
	t.Parallel()
	const advice = "the field is not exported and not zero, and would be lost: " +
		"export it, tag it `msgpack:\"-\"`, or give the struct an encoding of its own"
	for _, test := range []struct {
		v    any
		want string
	}{
		{Partly{A: 1, b: 2}, "b: int: "},
		{&Partly{b: 2}, "b: int: "},
		{[]Partly{{}, {b: 2}}, "element 1: b: int: "},
		{map[string]any{"k": Box[any]{&Partly{b: 2}}}, `["k"].Value.b: int: `},
		{Under{Partly: Partly{b: 1}}, "Partly.b: int: "},
		{Over{Nothing: Nothing{1}}, "Nothing: codec_test.Nothing: "},
		{Beside{small: 1}, "small: codec_test.small: "},
		{&Busy{all: [2]counted{{}, {n: 1}}}, "all: [2]codec_test.counted: "},
	} {
		t.Run(fmt.Sprintf("%T", test.v), func(t *testing.T) {
			t.Parallel()
			_, err := codec.Marshal(test.v)
			assert.EqualError(t, err, test.want+advice)
			assert.ErrorAs(t, err, new(*codec.Error))
		})
	}
	for _, v := range []any{Partly{A: 1}, Under{Partly{A: 1}, 2}, Over{C: 1}, Beside{C: 1}, Sealed{1, 2}, []Sealed{{3, 4}}} {
		assert.Equal(t, v, trip(t, v))
	}
}

// What is in sync's and sync/atomic's types, and in fields that are left out on purpose, means nothing elsewhere.
func TestUnexportedFieldsThatMayBeLost(t *testing.T) {
	t.Parallel()
	busy := &Busy{A: 1, private: "p", pool: [2]sync.Pool{{New: func() any { return nil }}}}
	busy.mu.Lock()
	busy.hits.Store(3)
	busy.last.Store(new(int))
	busy.all[1].Lock()
	busy.inside.mu.RLock()
	busy.inside.once[1].Do(func() {})
	busy.inside.tidy = 1
	busy.empty = struct{}{}
	busy.locks.mu.Lock()
	busy.locks.tidy = 1
	busy.WaitGroup.Add(1)
	frames, err := codec.Marshal(busy)
	require.NoError(t, err)
	out := new(Busy)
	require.NoError(t, codec.Unmarshal(frames, out))
	assert.Equal(t, &Busy{A: 1}, out)
}
