package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// leaseTime is how long a Lease that is not renewed keeps others from taking it.
	leaseTime = 20 * time.Second
	// heldTime is how long its holder relies on it. The rest is for the end of the holder's program.
	heldTime = 12 * time.Second
	// renewEvery is how often its holder renews it.
	renewEvery = 3 * time.Second
	// renewTry bounds one try, and releaseTime all of what is done at the end.
	renewTry, releaseTime = 4 * time.Second, 10 * time.Second
	// missingTime is how long it may take until it is made.
	missingTime = 2 * time.Minute
	// takeEvery is how often it is looked at by who waits for it.
	takeEvery = time.Second
)

// errTaken is the error of a Lease that another pod holds.
var errTaken = errors.New("another pod has taken its place")

// errLate is the error of a renewal that came when it was too late.
var errLate = errors.New("this process was stopped for a while")

// lease is a Lease, of which a pod is the only holder. It needs no clocks that agree: who waits takes it when it has not
// changed for leaseTime, and who holds it counts from before the request that has renewed it.
type lease struct {
	client       *Client
	name, holder string
	is           *coordinationv1.Lease // as of the last answer; nil before it is held
	until        time.Time             // held until then
}

// Holder returns the name of the pod that holds a Lease, "" if none does.
func (c *Client) Holder(ctx context.Context, name string) (string, error) {
	is, err := get(ctx, c, "leases", name, new(coordinationv1.Lease))
	return holder(is), err
}

func holder(is *coordinationv1.Lease) string {
	if is.Spec.HolderIdentity == nil {
		return ""
	}
	return *is.Spec.HolderIdentity
}

// take blocks until the pod holds the Lease, which may yet have to be made. It returns an error if the pod never may, or ctx ends.
func (l *lease) take(ctx context.Context) error {
	var version string
	var since time.Time // it has been that version
	begun := time.Now()
	return persist(ctx, func() (taken bool, err error) {
		is, err := get(ctx, l.client, "leases", l.name, new(coordinationv1.Lease))
		if apierrors.IsNotFound(err) && time.Since(begun) > missingTime {
			return true, fmt.Errorf("there is no lease %s: fiber run has ended before it had made one; fiber stop %[1]s removes the rest", l.name)
		}
		if err != nil {
			return false, err
		}
		switch by := holder(is); {
		case by == "" || by == l.holder || is.ResourceVersion == version && time.Since(since) > leaseTime:
			err = l.write(ctx, is, l.holder)
			return err == nil, err
		case is.ResourceVersion != version:
			version, since = is.ResourceVersion, time.Now()
		}
		return false, nil
	})
}

// persist tries something until it is done, ctx ends, or the permission for it is missing.
func persist(ctx context.Context, try func() (done bool, err error)) error {
	for refusals := (Refusals{}); ; {
		done, err := try()
		if done || refusals.Final(err, true) {
			return err
		}
		select {
		case <-time.After(takeEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keep renews the Lease until ctx ends. It returns an error once the pod does not hold the Lease any more.
func (l *lease) keep(ctx context.Context) error {
	for {
		select {
		case <-time.After(renewEvery):
		case <-ctx.Done():
			return nil
		}
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errTaken):
			return err
		case !time.Now().Before(l.until):
			return fmt.Errorf("the lease %s could not be renewed for %v: %w", l.name, heldTime, cmp.Or(err, errLate))
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	err := l.write(ctx, l.is, l.holder)
	if !apierrors.IsConflict(err) {
		return err
	}
	is, err := get(ctx, l.client, "leases", l.name, new(coordinationv1.Lease))
	switch {
	case apierrors.IsNotFound(err): // the program is being removed: no pod can take the Lease
		l.until = time.Now().Add(heldTime)
		return nil
	case err != nil:
		return err
	case holder(is) != l.holder:
		return errTaken
	}
	return l.write(ctx, is, l.holder) // the answer to an earlier try was lost, or somebody has edited it
}

// release lets another pod take the Lease at once.
func (l *lease) release(ctx context.Context) error {
	if l.is == nil {
		return nil
	}
	err := l.write(ctx, l.is, "")
	if apierrors.IsConflict(err) { // it is gone, or another pod's
		return nil
	}
	return err
}

// write writes who holds the Lease, if it is as it was.
func (l *lease) write(ctx context.Context, is *coordinationv1.Lease, by string) error {
	ctx, cancel := context.WithTimeout(ctx, renewTry)
	defer cancel()
	begun := time.Now()
	is = is.DeepCopy()
	is.Spec = coordinationv1.LeaseSpec{HolderIdentity: &by, LeaseDurationSeconds: new(int32(leaseTime / time.Second)), RenewTime: &metav1.MicroTime{Time: begun}}
	err := l.client.call(ctx, "update", "leases", func(ctx context.Context) error {
		return of(l.client.REST.Put(), l.client.Namespace, "leases").Name(l.name).Body(is.DeepCopy()).Do(ctx).Into(is)
	})
	if err == nil {
		l.is, l.until = is, begun.Add(heldTime)
	}
	return err
}
