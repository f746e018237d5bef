package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/runs"
)

// here lists the runs of this machine, none if the flag asks for a namespace.
func (w where) here() ([]runs.Run, error) {
	if w.Namespace != "" {
		return nil, nil
	}
	cfg, _, err := config.Load(config.Config{}, config.Sources{Others: true}) // the warnings are for those who run programs
	if err != nil {
		return nil, err
	}
	return runs.List(cfg.RuntimeDir), nil
}

// find finds the run of this machine that a name stands for, nil for none: the name that fiber ps shows, its process id, or the
// program's own name if only one has it.
func (w where) find(name string) (*runs.Run, error) {
	if name == "" {
		return nil, errors.New("the name of the program is empty")
	}
	all, err := w.here()
	if err != nil {
		return nil, err
	}
	var fits []runs.Run
	var names []string
	for _, r := range all {
		if r.Name() == name || strconv.Itoa(r.PID()) == name {
			return &r, nil
		}
		if r.Program == name {
			fits, names = append(fits, r), append(names, r.Name())
		}
	}
	switch len(fits) {
	case 0:
		return nil, nil
	case 1:
		return &fits[0], nil
	}
	return nil, fmt.Errorf("%s may be any of %s: use the full name", name, strings.Join(names, ", "))
}

// client returns a client of the cluster for a program that does not run on this machine.
func (w where) client(name string) (*kube.Client, error) {
	client, err := connect(w.Namespace)
	if errors.Is(err, kube.ErrUnconfigured) {
		return nil, fmt.Errorf("there is no program %s on this machine (fiber ps lists those whose runtime_dir is the same), and %w", name, err)
	}
	return client, err
}

// about calls here with the run of this machine that a name stands for, or else there with the pod on the cluster. A signal cancels it.
func (w where) about(name string, here func(context.Context, *runs.Run) error, there func(context.Context, *kube.Client, *corev1.Pod) error) error {
	run, err := w.find(name)
	if err != nil {
		return err
	}
	if run != nil {
		return before(submit.Signals(), func(ctx context.Context) error { return here(ctx, run) })
	}
	client, err := w.client(name)
	if err != nil {
		return err
	}
	return before(submit.Signals(), func(ctx context.Context) error {
		pod, err := submit.Lookup(ctx, client, name)
		if err != nil {
			return err
		}
		return there(ctx, client, pod)
	})
}

// silent is how long a program may take to answer before it is said not to.
const silent = 5 * time.Second

// answer asks a program how it is. The error says which program it is.
func answer(ctx context.Context, name string, ask func(context.Context) (runs.Status, error)) (runs.Status, error) {
	soon, cancel := context.WithTimeout(ctx, silent)
	defer cancel()
	s, err := ask(soon)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%s does not answer: it is stopped, or its processor is busy with something else", name)
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	}
	return s, err
}
