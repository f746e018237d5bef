package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/transport"
)

// visitTimeout bounds the wait for the first visit of the init of a job that has started. It may not reach this process.
const visitTimeout = 30 * time.Second

// errNoVisit reports an init that did not come.
var errNoVisit = errors.New("the init above the process has not reported")

// delivered is the output of a job whose init dials this process, as the job's process dials its parent: with an id of its
// own, once for each connection.
type delivered struct {
	node *Node
	name string
	id   string
	way  *dialback // of the next connection; nil if the init is not expected
}

// Target has this process listen for the init.
func (d *delivered) Target(ctx context.Context) (_ string, err error) {
	d.id = rand.Text()
	if d.way, err = d.node.newDialback(ctx, d.id); err != nil {
		return "", err
	}
	c := d.node.Config
	return delivery.Target{Endpoint: d.way.endpoint, Process: d.id, Heartbeat: c.HeartbeatInterval,
		Silence: c.HeartbeatTimeout + childPatience*c.HeartbeatInterval}.String(), nil
}

// Read implements [backend.Delivery].
func (d *delivered) Read(ctx context.Context, started, ended <-chan struct{}, to backend.Joined) (whole bool) {
	first, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		select {
		case <-started:
		case <-first.Done():
		}
		select {
		case <-time.After(visitTimeout):
			giveUp(errNoVisit)
		case <-first.Done():
		}
	}()
	within := first
	err := delivery.Read(ctx, func(ctx context.Context) (conn *transport.Conn, err error) {
		if d.way == nil {
			if d.way, err = d.node.newDialback(ctx, d.id); err != nil {
				return nil, err
			}
		}
		defer d.close()
		conn, _, err = d.way.meet(within, ended)
		within = ctx
		giveUp(nil) // the first time, or never
		return conn, err
	}, to)
	if context.Cause(first) == errNoVisit {
		d.node.Log.Warn("fiber: the output of a process is read from the log of its backend, which may lose some of it",
			"process", d.name, "error", errNoVisit)
	}
	return err == nil
}

// close stops to expect the init.
func (d *delivered) close() {
	if d.way != nil {
		d.way.close()
		d.way = nil
	}
}
