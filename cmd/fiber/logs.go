package main

import (
	"context"
	"os"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/stdio"
)

type logsCommand struct {
	where
	Follow bool   `short:"f" help:"Follow the output until the program ends."`
	Name   string `arg:"" help:"A pod, or a program with only one pod."`
}

func (c *logsCommand) Run() error {
	return c.onCluster(func(ctx context.Context, client *kube.Client) error {
		pod, err := submit.Lookup(ctx, client, c.Name)
		if err != nil {
			return err
		}
		return submit.Logs(ctx, client, pod, c.Follow, stdio.Stdout, stdio.Stderr, submit.NewReport(os.Stderr))
	})
}
