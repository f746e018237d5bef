package launch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/internal/wire"
)

// What a process asks of the one above it.
const (
	askGPU     = "gpu"      // N devices
	askGPUBack = "gpu-back" // these devices are free again
	askJob     = "job"      // a jobRequest, which stands behind it
)

// answer is an answer with what stands behind it.
type answer struct {
	wire.Answer
	value [][]byte
}

// ask sends a request up the tree and waits for the answer.
func (p *Parent) ask(ctx context.Context, what string, n int, held []string) ([]string, error) {
	a, err := p.request(ctx, wire.Ask{What: what, N: n, Held: held}, nil)
	return a.Held, err
}

func (p *Parent) request(ctx context.Context, ask wire.Ask, value [][]byte) (answer, error) {
	p.mu.Lock()
	p.asked++
	id := p.asked
	ask.ID = id
	reply := make(chan answer, 1)
	p.answers[id] = reply
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.answers, id)
		p.mu.Unlock()
	}()
	if err := p.conn.Send(ctx, wire.MustPack(wire.KindAsk, ask, value...)...); err != nil {
		return answer{}, err
	}
	select {
	case a := <-reply:
		if a.Err != "" {
			return a, errors.New(a.Err)
		}
		return a, nil
	case <-p.conn.Done():
		return answer{}, p.conn.Err()
	case <-ctx.Done():
		// The answer may still come, or have come just now; what it gives goes back.
		p.mu.Lock()
		p.late[id] = struct{}{}
		p.mu.Unlock()
		select {
		case a := <-reply:
			p.answered(a)
		default:
		}
		return answer{}, ctx.Err()
	}
}

// answered takes an answer in.
func (p *Parent) answered(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := p.answers[a.ID]
	_, late := p.late[a.ID]
	delete(p.late, a.ID)
	switch {
	case reply != nil && !late:
		reply <- a // under the lock, or whoever asked could leave without it
	case len(a.Held) > 0:
		p.conn.Post(wire.MustPack(wire.KindAsk, wire.Ask{What: askGPUBack, Held: a.Held})...)
	default:
		if id := launchedJob(a.value); id != "" {
			p.conn.Post(wire.MustPack(wire.KindAsk, wire.Ask{What: askJob}, jobRequest{Do: jobRemove, Job: id}.frames()...)...)
		}
	}
}

// stamp says in a request which child it comes from.
func (c *Child) stamp(ask *wire.Ask) {
	if !strings.HasPrefix(ask.From, "/") { // its own
		ask.From, ask.Name = "", c.spec.Name
	}
	ask.From = strings.TrimPrefix(c.place, c.node.Place) + ask.From
}

// answer serves a child's request, by this node or by the one above.
func (c *Child) answer(ask wire.Ask, value [][]byte) {
	defer c.asking.Done()
	var back [][]byte // behind the answer
	answer := wire.Answer{ID: ask.ID}
	c.stamp(&ask)
	switch ask.What {
	case askGPU:
		devices, _, err := c.node.acquireGPUs(c.asks, ask.N)
		if err != nil {
			answer.Err = err.Error()
			break
		}
		answer.Held = devices
		c.mu.Lock()
		c.devices = append(c.devices, devices...)
		c.mu.Unlock()
	case askGPUBack:
		c.mu.Lock()
		var back []string
		c.devices = slices.DeleteFunc(c.devices, func(d string) bool {
			if slices.Contains(ask.Held, d) {
				back = append(back, d)
				return true
			}
			return false
		})
		c.mu.Unlock()
		c.node.releaseGPUs(back)
	case askJob:
		var err error
		if back, err = c.answerJob(ask, value); err != nil {
			answer.Err = err.Error()
		}
	default:
		answer.Err = "fiber: a request of an unknown kind: " + ask.What
	}
	if ask.ID != 0 {
		c.conn.Post(wire.MustPack(wire.KindAnswer, answer, back...)...)
	}
}
