// Package transport carries messages between the processes of a run: ZMTP 3
// connections (the wire format of ZeroMQ), whole multi-frame messages, with
// bounds on everything that comes from outside.
//
// A [Conn] is opened over any net.Conn with [Open], dialled and authenticated
// with [Dial], or accepted from [ListenUnix] or [ListenTLS]. [Credentials] say
// who belongs to a run. Nothing is dropped in silence: a message is in the
// peer's socket or there is an error.
package transport
