package kube

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RBAC is the file with the permissions that Fiber needs.
const RBAC = "deploy/rbac.yaml"

// Error is an error of a request, with the cluster's answer or its absence in plain words.
type Error struct {
	Text string
	Err  error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

var (
	missingNamespace = regexp.MustCompile(`namespaces "([^"]*)" not found`)
	missingAccount   = regexp.MustCompile(`serviceaccount "([^"]*)" not found`)
)

// Explain returns an error that says in one line what the error of a request means, and what can be done about it.
func (c *Client) Explain(err error, verb, resource string) error {
	text := oneLine(err)
	host := ""
	if c.Config != nil {
		host = c.Config.Host
	}
	switch {
	case apierrors.IsUnauthorized(err):
		text = fmt.Sprintf("the cluster at %s does not accept the credentials of the kubeconfig: they are wrong or have expired; log in again", host)
	case apierrors.IsForbidden(err) && missingAccount.MatchString(text):
		text = fmt.Sprintf("there is no service account %q in the namespace %s: kubectl apply -n %[2]s -f %s makes one",
			missingAccount.FindStringSubmatch(text)[1], c.Namespace, RBAC)
	case apierrors.IsForbidden(err) && strings.Contains(text, "cannot"):
		text = fmt.Sprintf("no permission to %s %s in the namespace %s: kubectl apply -n %[3]s -f %s grants it (%s)", verb, resource, c.Namespace, RBAC, text)
	case missingNamespace.MatchString(text):
		text = fmt.Sprintf("the cluster has no namespace %q: kubectl create namespace %[1]s makes it", missingNamespace.FindStringSubmatch(text)[1])
	case (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && resource == "pods" && c.template != "":
		text += "; it is made from the pod template " + c.template + " (FIBER_POD_TEMPLATE)"
	case Unreachable(err):
		text = fmt.Sprintf("no cluster answers at %s: %s", host, oneLine(cause(err)))
	}
	return &Error{Text: text, Err: err}
}

// Unreachable reports whether err means that the cluster has not answered, which may be temporary.
func Unreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var address *url.Error
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &address)
}

// cause returns the root cause of an error.
func cause(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
