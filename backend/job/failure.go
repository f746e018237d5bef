package job

import (
	"errors"

	"github.com/fiber-go/fiber/backend"
)

// refusal is an error that will be the same the next time.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Refuse marks an error of a launch that will be the same the next time.
func Refuse(err error) error { return refusal{err} }

// Failure is the error of a launch, "" for that of all. It is permanent where it has been marked by [Refuse], or where the
// backend's own errors say so.
func Failure(on backend.Backend, job string, err error, permanent bool) *backend.LaunchError {
	var refused refusal
	return &backend.LaunchError{Backend: on.Name(), Job: job, Err: err, Permanent: permanent || errors.As(err, &refused)}
}
