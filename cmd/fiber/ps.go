package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type psCommand struct {
	where
	AllNamespaces bool `short:"A" help:"List the programs of all namespaces."`
}

func (c *psCommand) Run() error { return c.onCluster(c.list) }

func (c *psCommand) list(ctx context.Context, client *kube.Client) error {
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
		age := duration.HumanDuration(time.Since(m.Pod.CreationTimestamp.Time))
		fmt.Fprintf(table, row, m.Name(), m.Program(), m.Status(), len(m.Children), age, cmp.Or(m.Pod.Spec.NodeName, "-"))
	}
	return table.Flush()
}

func scope(client *kube.Client, all bool) string {
	if all {
		return "any namespace"
	}
	return "the namespace " + client.Namespace
}
