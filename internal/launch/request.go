package launch

import (
	"context"
	"errors"
	"net"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/internal/wire"
)

// request stands at the head of a stream along the tree: what the process that
// has opened it wants.
type request struct {
	To       string // the place of the process that is asked
	Listener string // the endpoint there that is wanted
	Back     string // where the process that asks can be dialled, "" when nowhere
	ID       uint64 // what a connection that is dialled there says
}

// reply is what comes of it.
type reply struct {
	Dialled bool // from there, and the bytes do not come along the tree
}

// errGone is a stream that has ended without an answer.
var errGone = errors.New("the process is not there any more")

// answered waits for the answer to a request. After an error the stream is closed.
func answered(ctx context.Context, s net.Conn) (answer reply, err error) {
	stop := context.AfterFunc(ctx, func() { s.Close() })
	err = wire.Read(s, &answer)
	switch {
	case !stop():
		err = ctx.Err()
	case err != nil:
		err = errGone
	}
	if err != nil {
		s.Close()
	}
	return answer, err
}

// serve does what the process at the other end of a stream wants that it has opened.
func (n *Node) serve(s net.Conn) {
	defer s.Close()
	var r request
	if wire.Read(s, &r) == nil {
		n.connect(s, &r)
	}
}

// forward leads a stream to the next process on its way.
func forward(s net.Conn, way *yamux.Session, r *request) {
	defer s.Close()
	if way == nil {
		return
	}
	next, err := way.Open()
	if err != nil {
		return
	}
	if wire.Write(next, r) != nil {
		next.Close()
		return
	}
	splice(s, next)
}
