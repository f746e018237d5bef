package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// where is the flag for the namespace.
type where struct {
	Namespace string `short:"n" placeholder:"NAME" help:"The namespace."`
}

type psCommand struct {
	where
	AllNamespaces bool `short:"A" help:"List the programs of all namespaces."`
}

func (c *psCommand) Run() error {
	client, err := connect(c.Namespace)
	if err != nil {
		return err
	}
	ctx := context.Background()
	found, err := submit.Find(ctx, client, c.AllNamespaces)
	if err != nil {
		return err
	}
	if len(found.Roots) == 0 {
		if err := client.Missing(ctx); err != nil && !c.AllNamespaces {
			return err
		}
		fmt.Fprintln(os.Stderr, "no programs in "+scope(client, c.AllNamespaces))
		return nil
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	header, row := "NAME\tPROGRAM\tSTATUS\tPODS\tAGE\tNODE\n", "%s\t%s\t%s\t%d\t%s\t%s\n"
	if c.AllNamespaces {
		header = "NAMESPACE\t" + header
	}
	fmt.Fprint(table, header)
	for _, m := range found.Roots {
		if c.AllNamespaces {
			fmt.Fprint(table, m.Pod.Namespace+"\t")
		}
		node := m.Pod.Spec.NodeName
		if node == "" {
			node = "-"
		}
		fmt.Fprintf(table, row, m.Pod.Name, m.Program(), m.Status(), len(m.Children), age(m.Pod.CreationTimestamp.Time), node)
	}
	return table.Flush()
}

func scope(client *kube.Client, all bool) string {
	if all {
		return "any namespace"
	}
	return "the namespace " + client.Namespace
}

// age returns how long ago a time was, in readable form.
func age(at time.Time) string {
	d := time.Since(at)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
