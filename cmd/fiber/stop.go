package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type stopCommand struct {
	where
	Now   bool     `help:"Kill them at once, without asking them to end."`
	Names []string `arg:"" name:"name" help:"Pods, or programs with only one pod."`
}

func (c *stopCommand) Run() error {
	return c.onCluster(func(ctx context.Context, client *kube.Client) error {
		errs := make([]error, len(c.Names))
		var group sync.WaitGroup
		for i, name := range c.Names {
			group.Go(func() {
				pod, err := submit.Lookup(ctx, client, name)
				if err == nil {
					err = submit.Stop(ctx, client, pod, c.Now)
				}
				if errs[i] = err; err == nil {
					stopped := pod.Name
					if job := kube.JobOf(pod); job != nil {
						stopped = job.Name
					}
					fmt.Println("Stopped " + stopped)
				}
			})
		}
		group.Wait()
		return errors.Join(errs...)
	})
}
