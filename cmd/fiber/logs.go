package main

import (
	"context"
	"os"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type logsCommand struct {
	where
	Follow bool   `short:"f" help:"Follow the output until the program ends."`
	Name   string `arg:"" help:"A pod, or a program with only one pod."`
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
	if kube.Unread(err) { // such as when a pager has been closed
		return nil
	}
	return err
}
