package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/runs"
)

type psCommand struct {
	where
	AllNamespaces bool `short:"A" help:"List the programs of all namespaces."`
}

// listed is a line of the list.
type listed struct {
	namespace, name, program, status string
	processes                        any
	began                            time.Time
	node                             string
}

func (c *psCommand) Run() error {
	here, err := c.here()
	if err != nil {
		return err
	}
	client, unconnected := connect(c.Namespace)
	unconfigured := errors.Is(unconnected, kube.ErrUnconfigured) && c.Namespace == "" && !c.AllNamespaces
	return before(submit.Signals(), func(ctx context.Context) error {
		all := running(ctx, here)
		err := unconnected
		if unconfigured {
			err = nil
		}
		if client != nil {
			var there []listed
			there, err = c.there(ctx, client)
			all = append(all, there...)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(all) > 0:
			return errors.Join(c.print(all), err)
		case err != nil:
			return err
		case client == nil:
			fmt.Fprintln(os.Stderr, "no programs on this machine, and "+unconnected.Error())
		case c.Namespace != "":
			fmt.Fprintln(os.Stderr, "no programs in "+scope(client, c.AllNamespaces))
		default:
			fmt.Fprintln(os.Stderr, "no programs on this machine, and none in "+scope(client, c.AllNamespaces))
		}
		return nil
	})
}

// runTime is how long a run of this machine has to say how many processes it has.
const runTime = 3 * time.Second

// running asks the runs of this machine, all at a time, how they are.
func running(ctx context.Context, all []runs.Run) []listed {
	programs := make([]listed, len(all))
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() {
			p := listed{"-", r.Name(), names.Printable(r.Program, ' '), "no answer", "-", r.Began, "here"}
			if r.Backend != "local" {
				p.node += " (" + r.Backend + ")"
			}
			switch s, err := r.AskOnce(ctx); {
			case err == nil:
				p.status, p.processes = "running", max(0, s.Running-1) // without the root
			case errors.Is(err, runs.ErrEnded):
				p.status = "done"
			}
			programs[i] = p
		})
	}
	group.Wait()
	return programs
}

// there lists the programs on the cluster.
func (c *psCommand) there(ctx context.Context, client *kube.Client) (all []listed, err error) {
	found, err := submit.Find(ctx, client, c.AllNamespaces)
	if err != nil {
		return nil, err
	}
	if len(found.Roots) == 0 && !c.AllNamespaces {
		return nil, client.Missing(ctx)
	}
	for _, m := range found.Roots {
		all = append(all, listed{m.Pod.Namespace, m.Name(), m.Program(), m.Status(), len(m.Children), m.Pod.CreationTimestamp.Time, cmp.Or(m.Pod.Spec.NodeName, "-")})
	}
	return all, nil
}

func (c *psCommand) print(all []listed) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	header := "NAME\tPROGRAM\tSTATUS\tPROCESSES\tAGE\tNODE\n"
	if c.AllNamespaces {
		header = "NAMESPACE\t" + header
	}
	fmt.Fprint(table, header)
	for _, p := range all {
		if c.AllNamespaces {
			fmt.Fprint(table, p.namespace+"\t")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%s\t%s\n", p.name, p.program, p.status, p.processes, duration.HumanDuration(time.Since(p.began)), p.node)
	}
	return table.Flush()
}

func scope(client *kube.Client, all bool) string {
	if all {
		return "any namespace"
	}
	return "the namespace " + client.Namespace
}
