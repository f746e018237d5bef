package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/owner"
)

// annotationRoot names the root of a run if it is not a pod; see package owner.
const annotationRoot = "fiber.root"

// sweepTimeout bounds the removal of what dead runs have left. It is shorter than the tree waits for the network: only a caller
// that gives up ends the sweep, and with it the search for the cluster.
const sweepTimeout = 5 * time.Second

// rootLabel stands for this user on this machine. What the runs of others have
// left, this process cannot judge.
var rootLabel = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(host + " " + strconv.Itoa(os.Getuid())))
	return hex.EncodeToString(sum[:8])
})

// rootName names the root of this run, "" if it is a pod: then the cluster
// removes what is left.
func rootName(c *cluster) string {
	if c.self != nil {
		return ""
	}
	return owner.Name()
}

// sweep removes the pods and secrets of this user's runs whose root was not a pod
// and is gone. The pods have ended by themselves.
func (c *cluster) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	selector := labelRoot + "=" + rootLabel()
	var removals sync.WaitGroup
	remove := func(resource string, object metav1.Object) {
		if owner.Gone(object.GetAnnotations()[annotationRoot]) {
			removals.Go(func() { c.Delete(ctx, resource, object, 0) })
		}
	}
	pods, err := c.Pods(ctx, selector, false)
	if err != nil {
		return // the first launch will return the error
	}
	for _, p := range pods.Items {
		remove("pods", &p)
	}
	secrets, err := c.Secrets(ctx, selector)
	if err == nil {
		for _, s := range secrets {
			remove("secrets", &s)
		}
	}
	removals.Wait()
}
