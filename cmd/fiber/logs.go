package main

import (
	"context"
	"os"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type logsCommand struct {
	where
	Follow bool   `short:"f" help:"Go on until the program ends."`
	Name   string `arg:"" help:"The pod, or the program if there is one of that name."`
}

func (c *logsCommand) Run() error {
	client, err := connect(c.Namespace)
	if err != nil {
		return err
	}
	err = interruptible(func(ctx context.Context) error {
		pod, err := submit.Lookup(ctx, client, c.Name)
		if err != nil {
			return err
		}
		return submit.Logs(ctx, client, pod, c.Follow, os.Stdout, os.Stderr, submit.NewReport(os.Stderr))
	})
	if kube.Unread(err) { // such as by a pager that has seen enough
		return nil
	}
	return err
}
