// Package kube talks to a Kubernetes cluster: about pods, their status and logs, secrets, nodes, and the Jobs that start
// pods again, which is all that Fiber uses.
//
// It uses client-go's REST client with a scheme of its own, which is made when a cluster is first used. The generated
// clients would cost every process of a program memory and time at its start, whatever its backend.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fiber-go/fiber/internal/retry"
)

const (
	// tryTimeout bounds one try of a request, except for watches and logs.
	tryTimeout = 10 * time.Second
	// firstTimeout bounds the wait for a cluster that has never answered.
	firstTimeout = 10 * time.Second
	// retryPause is the longest pause between two tries.
	retryPause = 2 * time.Second
	// closeTime bounds how long Close waits for requests that were given up, and for one that nobody gives up.
	closeTime = nodesTimeout + time.Second
)

// Client talks to a cluster. All methods may be called from many goroutines.
type Client struct {
	// Namespace is the namespace of all requests, unless a method says otherwise.
	Namespace string
	// InCluster: this process is in a pod of the cluster and uses its service account.
	InCluster bool
	REST      *rest.RESTClient
	Config    *rest.Config

	dialer   dialer // for REST
	template string // the path of the one that pods are made from, "" for none
	answered atomic.Bool
	looking  singleflight.Group // for nodes
}

// codecs returns what reads and writes the API's objects, and what writes the options of requests.
var codecs = sync.OnceValues(func() (runtime.NegotiatedSerializer, runtime.ParameterCodec) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // cannot happen: the types are compiled in
		}
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).WithoutConversion(), runtime.NewParameterCodec(scheme)
})

// Parameters returns the codec that writes the options of a request.
func Parameters() runtime.ParameterCodec {
	_, params := codecs()
	return params
}

// tokenFile is the token of a pod's service account.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// InPod reports whether this process is in a pod that has a service account's token.
func InPod() bool {
	_, err := os.Stat(tokenFile)
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// ErrUnconfigured means that there is no kubeconfig, and no pod around this process.
var ErrUnconfigured = errors.New("no cluster is configured")

// Connect returns a client of the cluster that is configured by KUBECONFIG, by ~/.kube/config or by the pod that this
// process is in. The namespace may be "", which stands for the configured one. Connect does not talk to the cluster yet.
func Connect(namespace string) (*Client, error) {
	c := &Client{Namespace: namespace}
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{})
	raw, err := loader.RawConfig()
	var config *rest.Config
	if err == nil {
		c.InCluster = len(raw.Clusters) == 0
		if c.InCluster && !InPod() {
			return nil, fmt.Errorf("%w: %s, and this process is not in a pod with a service account; "+
				"set KUBECONFIG to the path of a kubeconfig file", ErrUnconfigured, looked())
		}
		config, err = loader.ClientConfig()
	}
	if err == nil && c.Namespace == "" {
		c.Namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, fmt.Errorf("the configuration of the cluster: %w", err)
	}
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter() // the server's own limits are respected
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "fiber"
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer, _ = codecs()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.Config = config
	counted := rest.CopyConfig(config)
	counted.Dial, c.dialer.late = c.dialer.dial, c.Close
	if c.REST, err = rest.RESTClientFor(counted); err != nil {
		return nil, fmt.Errorf("the configuration of the cluster: %w", err)
	}
	return c, nil
}

// looked returns where a kubeconfig was looked for, in words.
func looked() string {
	if path := os.Getenv("KUBECONFIG"); path != "" {
		return "there is none in KUBECONFIG=" + path
	}
	return "KUBECONFIG is not set, there is none in ~/.kube/config"
}

// call makes a request with try, and explains its error.
func (c *Client) call(ctx context.Context, verb, resource string, request func(context.Context) error) error {
	err := c.try(ctx, request)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return c.Explain(err, verb, resource)
}

// try repeats a request until it is answered or ctx ends. It soon gives up on a cluster that has never answered.
func (c *Client) try(ctx context.Context, request func(context.Context) error) error {
	c.dialer.closed.Store(false)
	begun := time.Now()
	for again := (retry.Pauses{Longest: retryPause}); ; {
		once, cancel := context.WithTimeout(ctx, tryTimeout)
		err := request(once)
		cancel()
		switch {
		case !Transient(err):
			c.answered.Store(true)
			return err
		case !c.answered.Load() && ctx.Err() == nil && (time.Since(begun) > firstTimeout-retryPause || hopeless(err)):
			return err
		case !again.Wait(ctx):
			return ctx.Err()
		}
	}
}

// Transient reports whether an error comes from the way to the cluster, or will pass.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		code := answer.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	return true
}

// hopeless reports whether an error from the way to a cluster makes a second try pointless.
func hopeless(err error) bool {
	return has(err.Error(), "connection refused", "no such host", "certificate", "no route to host")
}

// Final reports whether the same request would fail again.
func Final(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return !Transient(err) && !apierrors.IsConflict(err)
	}
	return Unreachable(err)
}

// Close closes idle connections. A request that was just given up, or whose connection was still being made, leaves one that
// is idle a moment later: Close waits for that. The client can be used again.
func (c *Client) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	c.dialer.closed.Store(true) // the goroutine that makes a connection may have yet to begin
	for again := (retry.Pauses{Longest: closeTime}); ; {
		utilnet.CloseIdleConnectionsFor(c.REST.Client.Transport)
		if c.dialer.open.Load() == 0 || !again.Wait(ctx) {
			return
		}
	}
}
