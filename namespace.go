package fiber

import (
	"context"
	"fmt"
	"reflect"
	"runtime"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Namespace holds named values of any types. It lives in a manager, and
// processes share it. Create it with NewNamespace. It travels as (part of) an
// argument, a result, or a value of another managed object; all copies are the
// same namespace. Any goroutine may use it.
//
// As with a Dict, what goes in and comes out is a copy, and each method is one
// step. The errors are a Dict's, too.
type Namespace struct{ builtinObject[namespaceType] }

type namespaceType struct{}

func (namespaceType) objectType() (string, string, byte) { return "namespace", "Namespace", 'N' }

// NewNamespace makes an empty namespace in a manager.
func NewNamespace(ctx context.Context, m *Manager) (*Namespace, error) {
	o, err := makeObject[namespaceType](ctx, m, builtin.Making{Kind: builtin.KindDict})
	if err != nil {
		return nil, err
	}
	return &Namespace{o}, nil
}

// Set sets the value of a name.
func (n *Namespace) Set(ctx context.Context, name string, v any) error {
	e, err := entryOf(name, name, v)
	if err != nil {
		return err
	}
	return do(ctx, n, builtin.DictSet, []object.Value{e.Key, e.Value})
}

// Get decodes the value of a name into the variable that into points to, and
// reports whether the name has a value. If the value cannot be decoded into
// that type, the error is a *MismatchError.
func (n *Namespace) Get(ctx context.Context, name string, into any) (bool, error) {
	if v := reflect.ValueOf(into); v.Kind() != reflect.Pointer || v.IsNil() {
		return false, fmt.Errorf("fiber: Namespace.Get(%q): into must be a pointer that is not nil, and is a %T", name, into)
	}
	c, err := keyed(ctx, n, builtin.DictGet, name)
	if err != nil || len(c.Values) == 0 {
		return false, err
	}
	err = codec.Unmarshal(c.Values[0].Frames, into)
	runtime.KeepAlive(c) // as in decode
	if err != nil {
		return false, mismatch("%s in the namespace is not of type %v: %v", name, reflect.TypeOf(into).Elem(), err)
	}
	return true, nil
}

// Delete removes a name and reports whether it was there.
func (n *Namespace) Delete(ctx context.Context, name string) (bool, error) {
	return keyed(ctx, n, builtin.DictDelete, name)
}

// Names returns all names, in the order in which they were added.
func (n *Namespace) Names(ctx context.Context) ([]string, error) {
	names, err := settle(ctx, n, builtin.DictKeys, object.None{})
	return decodeAll[string]("name", names, err)
}
