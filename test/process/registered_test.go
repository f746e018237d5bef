//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
	"github.com/fiber-go/fiber/test/process/testdata/notfound"
)

// quotaError is a registered type of errors.
type quotaError struct {
	Limit int
	By    map[string]int
	Cause error
	Other error
	Hook  func() `msgpack:"-"` // which could not travel
	note  string
}

func (e *quotaError) Error() string { return fmt.Sprintf("more than %d", e.Limit) }

// codeError is another one, without fields.
type codeError int

func (c codeError) Error() string { return fmt.Sprintf("code %d", int(c)) }

// strangeError is not registered.
type strangeError struct{ N int }

func (strangeError) Error() string { return "strange" }

// listError and valueError are types whose values cannot be compared.
type listError []string

func (l listError) Error() string { return fmt.Sprint("list ", len(l)) }

type valueError struct{ Limits []int }

func (v valueError) Error() string { return fmt.Sprint("limits ", v.Limits) }

// frailError panics where it arrives: what it needs is not exported.
type frailError struct {
	N     int
	inner *valueError
}

func (f *frailError) Error() string { return fmt.Sprint("frail ", f.inner.Limits) }
func (f *frailError) Unwrap() error { return f.inner }

// nestedError has a part that cannot always travel.
type nestedError struct{ Part part }

type part struct{ A, b int }

func (*nestedError) Error() string { return "nested" }

var (
	_ = fiber.RegisterErrorType[*nestedError]()
	_ = fiber.RegisterErrorType[listError]()
	_ = fiber.RegisterErrorType[valueError]()
	_ = fiber.RegisterErrorType[*frailError]()
	_ = fiber.RegisterErrorType[*quotaError]()
	_ = fiber.RegisterErrorType[codeError]()

	errNotFound = fiber.RegisterError(errors.New("not found"))
	errUnknown  = errors.New("nobody knows it")

	failRegistered = fiber.Register("failRegistered", func(_ context.Context, how string) (fibertest.None, error) {
		return fibertest.None{}, map[string]func() error{
			"quota": func() error {
				return fmt.Errorf("today: %w", &quotaError{5, map[string]int{"x": 1}, fmt.Errorf("below: %w", errNotFound), errNotFound, func() {}, "note"})
			},
			"code":      func() error { return codeError(7) },
			"nil quota": func() error { return errors.Join((*quotaError)(nil), errNotFound) },
			"not found": func() error { return errNotFound },
			"not there": func() error { return notfound.Err },
			"unknown":   func() error { return fmt.Errorf("well: %w", errUnknown) },
			"list":      func() error { return errors.Join(listError{"a", "b"}, &fiber.MismatchError{Reason: "it does not fit"}) },
			"value":     func() error { return fmt.Errorf("no: %w", valueError{[]int{1, 2}}) },
			"frail":     func() error { return &quotaError{Limit: 1, Cause: &frailError{1, &valueError{[]int{3}}}} },
			"frail too": func() error { return errors.Join(errNotFound, &frailError{1, &valueError{[]int{3}}}) },
			"strange":   func() error { return strangeError{1} },
			"hidden":    func() error { return &quotaError{Limit: 1, Other: &nestedError{Part: part{1, 2}}} },
			"nested":    func() error { return &nestedError{Part: part{1, 2}} },
			"plain": func() error {
				return &quotaError{Limit: 1, Other: errors.New("plain"), Cause: fmt.Errorf("in: %w", io.EOF)}
			},
			"EOF":        func() error { return fmt.Errorf("read: %w", io.ErrUnexpectedEOF) },
			"open":       func() error { _, err := os.Open("/no/such/file"); return err },
			"no program": func() error { _, err := exec.LookPath("no-such-program"); return err },
		}[how]()
	})
)

func TestRegisteredErrors(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	fails := func(how string) error {
		_, err := fiber.Apply(fibertest.Soon(t), pool, failRegistered, how)
		require.Error(t, err, how)
		return err
	}
	var quota *quotaError
	err := fails("quota")
	require.ErrorAs(t, err, &quota)
	require.Equal(t, 5, quota.Limit)
	require.Equal(t, map[string]int{"x": 1}, quota.By)
	require.ErrorIs(t, quota.Cause, errNotFound)
	require.ErrorContains(t, quota.Cause, "below: not found")
	require.Equal(t, errNotFound, quota.Other)
	require.Empty(t, quota.note)
	var code codeError
	require.ErrorAs(t, fails("code"), &code)
	require.EqualValues(t, 7, code)
	require.ErrorIs(t, fails("nil quota"), errNotFound)

	var list listError
	err = fails("list")
	require.ErrorAs(t, err, &list)
	require.Equal(t, listError{"a", "b"}, list)
	require.ErrorAs(t, err, new(*fiber.MismatchError))
	var value valueError
	require.ErrorAs(t, fails("value"), &value)
	require.Equal(t, valueError{[]int{1, 2}}, value)
	require.ErrorAs(t, fails("frail"), &quota)
	require.ErrorContains(t, quota.Cause, "frail [3]", "its text has arrived")
	err = fails("frail too")
	require.ErrorIs(t, err, errNotFound)
	require.False(t, errors.As(err, new(*frailError)), "it cannot be used here")

	require.ErrorAs(t, fails("plain"), &quota)
	require.EqualError(t, quota.Other, "plain")
	require.EqualError(t, quota.Cause, "in: EOF")
	require.ErrorIs(t, quota.Cause, io.EOF)
	err = fails("nested")
	require.False(t, errors.As(err, new(*nestedError)))
	require.ErrorContains(t, err, ": nested; it does not arrive as a *process_test.nestedError: ")
	require.ErrorContains(t, err, "Part")
	require.ErrorAs(t, fails("hidden"), &quota)
	require.ErrorContains(t, quota.Other, "nested; it does not arrive as a *process_test.nestedError: ")

	require.ErrorIs(t, fails("not found"), errNotFound)
	require.NotErrorIs(t, fails("not found"), notfound.Err, "another package's with the same text")
	require.ErrorIs(t, fails("not there"), notfound.Err)
	require.NotErrorIs(t, fails("not there"), errNotFound)
	require.ErrorIs(t, fails("EOF"), io.ErrUnexpectedEOF)
	require.ErrorIs(t, fails("open"), fs.ErrNotExist)
	require.ErrorIs(t, fails("no program"), exec.ErrNotFound)

	// Who has looked for an error in vain reads what to do.
	err = fails("unknown")
	require.NotContains(t, err.Error(), "RegisterError")
	require.False(t, errors.Is(err, errUnknown))
	require.ErrorContains(t, err, `(errors.Is finds "nobody knows it" in it only if that is registered with fiber.RegisterError)`)
	err = fails("code")
	require.ErrorIs(t, err, codeError(7))
	require.NotContains(t, err.Error(), "RegisterError", "it was found")
	err = fails("strange")
	require.False(t, errors.As(err, new(*quotaError)))
	require.NotContains(t, err.Error(), "RegisterError")
	require.False(t, errors.As(err, new(strangeError)))
	require.ErrorContains(t, err, `registered with fiber.RegisterErrorType[process_test.strangeError])`)
}
