package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/kube/submit"
)

type stopCommand struct {
	where
	Now   bool     `help:"Kill them at once, without asking them to end."`
	Names []string `arg:"" name:"name" help:"Pods, or programs with only one pod."`
}

func (c *stopCommand) Run() error {
	client, err := connect(c.Namespace)
	if err != nil {
		return err
	}
	grace := int64(-1)
	if c.Now {
		grace = 0
	}
	return interruptible(func(ctx context.Context) error {
		errs := make([]error, len(c.Names))
		var group errgroup.Group
		for i, name := range c.Names {
			group.Go(func() error {
				pod, err := submit.Lookup(ctx, client, name)
				if err == nil {
					err = submit.Stop(ctx, client, pod, grace)
				}
				if errs[i] = err; err == nil {
					fmt.Println("Stopped " + pod.Name)
				}
				return nil
			})
		}
		_ = group.Wait() // the errors are in errs
		return errors.Join(errs...)
	})
}
