package codec

import (
	"reflect"

	"github.com/fiber-go/fiber/internal/guard"
)

// method is a type's own encoder, which gets no bytes, or decoder, which returns none.
type method func(x any, b []byte) ([]byte, error)

// methods calls the methods of users' types. A method may panic or end its goroutine, and the caller goes on:
// the methods of the first few values in a list or map run on goroutines of their own, those of the others on one
// for the rest of the list.
type methods struct {
	alone  int  // methods that ran on goroutines of their own
	shared bool // this goroutine may be ended
}

// few values cost less with a goroutine each: one that encodes a whole list needs a larger stack.
const few = 8

// call calls a method of x.
func (m *methods) call(f method, x any, b []byte) ([]byte, error) {
	if m.shared {
		return f.caught(x, b)
	}
	m.alone++
	return f.apart(x, b)
}

func (f method) caught(x any, b []byte) (out []byte, err error) {
	err = guard.Caught(func() (err error) {
		out, err = f(x, b)
		return err
	})
	return out, err
}

func (f method) apart(x any, b []byte) (out []byte, err error) {
	err = guard.Call(func() (err error) {
		out, err = f(x, b)
		return err
	})
	return out, err
}

// rest has do encode or decode the values of type t from the i-th to the n-th on one goroutine. It returns the
// number of the one that failed.
func (m *methods) rest(t reflect.Type, i, n int, do func(i int) error) (int, error) {
	m.shared = true
	err := guard.Call(func() error {
		for ; i < n; i++ {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	})
	m.shared = false
	if err != nil {
		err = own(t, err)
	}
	return i, err
}
