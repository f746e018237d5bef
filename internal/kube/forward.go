package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// DialPod connects to a port at which the program of a pod listens on 127.0.0.1. The connection leads through the API server,
// over a web socket or, on older clusters, over SPDY.
func (c *Client) DialPod(ctx context.Context, pod string, port int) (net.Conn, error) {
	address := c.REST.Post().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, c.Config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(socket,
		spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address), Upgradeless)
	type result struct {
		conn *forwarding
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		conn, err := forward(dialer, port)
		dialled <- result{conn, err}
	}()
	select {
	case r := <-dialled:
		if r.err != nil {
			return nil, c.Explain(r.err, "create", "pods/portforward")
		}
		return r.conn, nil
	case <-ctx.Done():
		go func() {
			if r := <-dialled; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Upgradeless reports whether an error says that there is no way to the cluster for web sockets.
func Upgradeless(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// forwarding is a connection that is forwarded.
type forwarding struct {
	net.Conn
	refused error // why; set before the end of the connection
}

func forward(dialer httpstream.Dialer, port int) (*forwarding, error) {
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	refusal, err := conn.CreateStream(headers)
	if err != nil {
		conn.Close()
		return nil, err
	}
	refusal.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		conn.Close()
		return nil, err
	}
	ours, theirs := net.Pipe()
	f := &forwarding{Conn: ours}
	go func() {
		io.Copy(theirs, data)
		if text, _ := io.ReadAll(refusal); len(text) > 0 {
			f.refused = errors.New(string(text))
		}
		theirs.Close()
		conn.Close()
	}()
	go func() {
		io.Copy(data, theirs)
		conn.Close() // which ends the streams
	}()
	return f, nil
}

// Read returns the reason why the pod refuses the connection as an error.
func (f *forwarding) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if err == io.EOF && f.refused != nil {
		err = f.refused
	}
	return n, err
}
