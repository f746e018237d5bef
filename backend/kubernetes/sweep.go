package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/root"
)

// annotationRoot is the first process of a run that is no pod; see package
// root.
const annotationRoot = "fiber.root"

// sweepTimeout bounds the search for what dead runs have left.
const sweepTimeout = 10 * time.Second

// rootLabel stands for this user on this machine: what runs of other ones
// have left is not this process's to judge.
var rootLabel = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(host + " " + strconv.Itoa(os.Getuid())))
	return hex.EncodeToString(sum[:8])
})

// rootName is the first process of this run, "" when it is a pod: the
// cluster then removes what is left.
func rootName(c *cluster) string {
	if c.self != nil {
		return ""
	}
	return root.Name()
}

// sweep removes the pods and secrets of this user's runs whose first process,
// which was no pod, is gone. They have ended by themselves.
func (c *cluster) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	selector := labelRoot + "=" + rootLabel()
	var removals sync.WaitGroup
	remove := func(resource, name string, annotations map[string]string) {
		if root.Gone(annotations[annotationRoot]) {
			removals.Go(func() { c.Delete(ctx, resource, name, 0) })
		}
	}
	pods, err := c.Pods(ctx, selector, false)
	if err != nil {
		return // whoever needs the cluster hears of it soon
	}
	for _, p := range pods.Items {
		remove("pods", p.Name, p.Annotations)
	}
	secrets, err := c.Secrets(ctx, selector)
	if err == nil {
		for _, s := range secrets {
			remove("secrets", s.Name, s.Annotations)
		}
	}
	removals.Wait()
}
