// Package transport carries messages between the processes of a run: whole
// multi-frame messages over ZMTP 3 connections (the wire format of ZeroMQ),
// with bounds on everything that comes from outside.
//
// A [Conn] is opened over any net.Conn with [Open], dialled and authenticated
// with [Dial], or accepted from [ListenUnix] or [ListenTLS]. [Credentials] are
// what the processes of a run share and prove to each other. No message is
// dropped silently: either it is in the peer's socket, or there is an error.
package transport
