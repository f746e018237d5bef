package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fiber-go/fiber"
)

// right checks the results of a call.
func (p *poolWork) right(outs []done, n, call int) {
	if len(outs) != n {
		p.breach(ruleRight, "%d results for %d tasks", len(outs), n)
	}
	for i, out := range outs {
		if out != (done{call, i, i * i}) {
			p.breach(ruleRight, "%+v for task %d of call %d", out, i, call)
		}
	}
	p.bit(ruleRight)
}

// outcome checks the error of a call. bad is the lowest index of a task that fails by itself, -1 where any may be the first.
func (p *poolWork) outcome(what string, ins []job, bad int, err, late error) {
	p.mu.Lock()
	closing, beside := p.closing, p.killers && p.attempts == 1 // what was started beside a task that ends the worker fails, too
	p.mu.Unlock()
	var lost *fiber.WorkerLostError
	var remote *fiber.RemoteError
	var encode *fiber.EncodeError
	var mismatch *fiber.MismatchError
	var launch *fiber.LaunchError
	var task *fiber.TaskError
	errors.As(err, &task)
	switch {
	case err == nil:
		if bad >= 0 && bad < len(ins) && what != "IMap" {
			p.breach(ruleLowest, "%s has succeeded, though task %d fails: %+v", what, bad, ins[bad])
		}
	case late != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)), closing && errors.Is(err, fiber.ErrClosed):
	case errors.As(err, &launch):
		if p.harmed() == 0 {
			p.breach(ruleErrors, "%s: %v", what, err)
		}
	case errors.As(err, &lost):
		kills := slices.ContainsFunc(ins, func(j job) bool { return j.Do == "exit" })
		if kills = kills && task != nil; kills {
			kills = ins[task.Index].Do == "exit"
		}
		if p.harmed() < p.attempts && !kills && !beside && !p.nests(ins) {
			p.breach(ruleInnocent, "%s: %v, though only %d faults may have lost a worker", what, err, p.harmed())
		}
		p.bit(ruleInnocent)
		p.checkName(err)
	case errors.As(err, &remote), errors.As(err, &encode), errors.As(err, &mismatch):
		p.bit(ruleLowest)
		if task == nil || task.Index >= len(ins) || task.Func != work.Name() {
			p.breach(ruleErrors, "%s: %v, which names no task of the call", what, err)
			break
		}
		of := func(j job) bool { return expectedText(j) != "" && strings.Contains(err.Error(), expectedText(j)) }
		if hopeless := p.harmed() >= startTries && slices.ContainsFunc(ins, of); hopeless {
			break // no worker may be left to run those before it
		}
		if !p.nests(ins) && !of(ins[task.Index]) {
			p.breach(ruleErrors, "%s: %v, which is not of task %d, %+v", what, err, task.Index, ins[task.Index])
		}
		if j := ins[task.Index]; errors.As(err, &remote) && slices.Contains(mayFail, j.Do) && j.Fails == 0 && !p.nests(ins) {
			p.book.mu.Lock()
			n, least := p.book.failures[[2]int{j.Call, j.Index}], 1+p.retries(j.Call)
			p.book.mu.Unlock()
			if n < least || n > least+p.harmed() {
				p.breach(ruleRetries, "%s: %v, after %d failures, of which there are %d", what, err, n, least)
			}
			if least > 1 {
				p.bit(ruleRetries)
			}
		}
		if bad >= 0 && bad < len(ins) && !closing && ins[bad].Do != "exit" && !p.nests(ins) && !of(ins[bad]) {
			p.breach(ruleLowest, "%s: %v, and not that of task %d, %+v", what, err, bad, ins[bad])
		}
	default:
		p.breach(ruleErrors, "%s: %T %v", what, err, err)
	}
	if !slices.ContainsFunc(ins, func(j job) bool { return j.Do != "" }) && err == nil {
		p.bit(ruleInnocent)
	}
}

// startTries is how many starts in a row fail until a pool without workers gives up.
const startTries = 3

func (p *poolWork) nests(ins []job) bool {
	return slices.ContainsFunc(ins, func(j job) bool { return j.Do == "nest" })
}

// expectedText is what the error of a task that fails says.
func expectedText(j job) string {
	if j.Fails > 0 {
		return ""
	}
	switch j.Do {
	case "fail", "panic", "replace":
		return fmt.Sprintf("failed at %d of %d", j.Index, j.Call)
	case "encode":
		return "refused to be encoded"
	case "encoder panics":
		return "panic: encoder"
	case "decode":
		return "refused to be decoded"
	}
	return ""
}

// check compares how often tasks were begun with how often they may have been.
func (p *poolWork) check() {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	for task, n := range p.book.runs {
		if task[0] >= 1_000_000 {
			continue
		}
		// The first loss may have been beside others, which does not count.
		retries := p.retries(task[0])
		if most := p.attempts + p.harmed() + 1 + retries; p.attempts == 1 && n > 1+retries || n > most {
			p.breach(ruleAttempts, "task %d of call %d was begun %d times, %d attempts are allowed", task[1], task[0], n, p.attempts)
		}
		p.bit(ruleAttempts)
		if p.book.failures[task] > 0 && retries > 0 {
			p.bit(ruleRetries)
		}
	}
}
