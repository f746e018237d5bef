package job

import (
	"errors"

	"github.com/fiber-go/fiber/backend"
)

// refusal is an error that another try would meet again.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Refuse marks the error of a launch as one that another try would meet again.
func Refuse(err error) error { return refusal{err} }

// Failure returns the error of the launch of a job, "" for all jobs. It is permanent if err was marked by [Refuse], or if
// permanent is set because the backend's own errors say so.
func Failure(on backend.Backend, job string, err error, permanent bool) *backend.LaunchError {
	var refused refusal
	return &backend.LaunchError{Backend: on.Name(), Job: job, Err: err, Permanent: permanent || errors.As(err, &refused)}
}
