package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/fiber-go/fiber/internal/kube"
)

// executor returns what runs a command in a pod, over a web socket or, on older clusters, over SPDY.
func executor(c *kube.Client, pod string, command []string, stdin bool) (remotecommand.Executor, error) {
	opts := &corev1.PodExecOptions{Container: kube.Container, Command: command, Stdin: stdin, Stdout: true, Stderr: true}
	address := c.REST.Post().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(opts, kube.Parameters()).URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, kube.Upgradeless)
}
