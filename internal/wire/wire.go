// Package wire defines the messages that Fiber's processes exchange.
//
// A message is a list of frames. The first frame holds the kind and the fields,
// and the frames after it an encoded value of the user's (see codec). The messages
// of tasks, Batch and Results, and those of objects are packed by hand, because
// every task or call sends some. So are the requests and notices of objects that
// are frequent or hold many values. The codec encodes the fields of all others; to
// decode them, it takes no more memory than a message's length accounts for.
package wire

import (
	"errors"
	"fmt"

	"github.com/fiber-go/fiber/internal/codec"
)

// Version is the protocol's version. Two processes talk only if theirs are equal.
const Version = 12

// Kind says what a message is. It is the first byte of the first frame.
type Kind byte

// The messages, with their senders.
const (
	KindHello      Kind = 1 + iota // child: which process it is, and its build
	KindRefuse                     // parent: the hello does not fit
	KindAssign                     // parent: what to do
	KindDone                       // child: the assigned function has returned, or the child could not begin
	KindStop                       // parent: end when what you hold is done
	KindStatus                     // child: its memory
	KindReady                      // worker: its initializer has run; manager: its Ref
	KindBatch                      // pool: tasks to run
	KindResults                    // worker: results, and what it starts next
	KindRecall                     // pool: give back the tasks that you have not started
	KindReturned                   // worker: the tasks that it gives back
	KindCancel                     // pool: these tasks are not wanted any more
	KindVisit                      // any process, to a home: which process it is
	KindRequest                    // any process, to a home: do this with an object
	KindReply                      // home: the answer
	KindGiveUp                     // any process, to a home: the answer is not wanted any more
	KindHold                       // any process, to a home: an object is in use
	KindRelease                    // any process, to a home: an object is not in use any more
	KindNotice                     // home: news of an object, unasked
	KindBye                        // either end: the connection is about to end, as it should
	KindStream                     // parent, child: bytes of the streams between them
	KindMember                     // rank: how its left neighbour reaches it
	KindMembers                    // parent: all ranks of the ring
	KindBroken                     // rank, parent: the ring has failed, and why
	KindMeet                       // rank, to its right neighbour: which rank it is
	KindMessage                    // rank, to a neighbour: a value
	KindCollective                 // rank, to its right neighbour: what begins
	KindKill                       // parent: end at once
	KindTerminate                  // parent: end, and what you run is not wanted any more
	KindTaken                      // receiver of results or of an answer: the objects named in them are held here
	KindOutput                     // init: a piece of its program's output
	KindReading                    // reader of such an output: how far it has come
	KindLog                        // child: a log message for the root
	KindObserve                    // parent: whether to send events
	KindEvents                     // child: what has happened
)

var names = [...]string{KindHello: "hello", KindRefuse: "refuse", KindAssign: "assign", KindDone: "done",
	KindStop: "stop", KindStatus: "status", KindReady: "ready",
	KindBatch: "batch", KindResults: "results", KindRecall: "recall", KindReturned: "returned",
	KindCancel: "cancel", KindVisit: "visit", KindRequest: "request", KindReply: "reply", KindGiveUp: "give up",
	KindHold: "hold", KindRelease: "release", KindNotice: "notice", KindBye: "bye", KindStream: "stream",
	KindMember: "member", KindMembers: "members", KindBroken: "broken", KindMeet: "meet", KindMessage: "message",
	KindCollective: "collective", KindKill: "kill",
	KindTerminate: "terminate", KindTaken: "taken", KindOutput: "output", KindReading: "reading", KindLog: "log", KindObserve: "observe", KindEvents: "events"}

func (k Kind) String() string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// ErrMalformed reports a message that no Fiber sends.
var ErrMalformed = errors.New("fiber: malformed message")

// ErrOver reports a process that has ended, as its parent says.
var ErrOver = errors.New("its parent says that it has ended")

// Pack makes a message of a kind with fields, nil for none, followed by the frames
// of a value.
func Pack(kind Kind, fields any, value ...[]byte) ([][]byte, error) {
	head := []byte{byte(kind)}
	if fields != nil {
		body, err := codec.Marshal(fields)
		if err != nil || len(body) != 1 {
			return nil, fmt.Errorf("fiber: encoding a %v message: %w", kind, errors.Join(err, ErrMalformed))
		}
		head = append(head, body[0]...)
	}
	return append([][]byte{head}, value...), nil
}

// MustPack is Pack for fields that always encode: structs of this package.
func MustPack(kind Kind, fields any, value ...[]byte) [][]byte {
	frames, err := Pack(kind, fields, value...)
	if err != nil {
		panic(err)
	}
	return frames
}

// KindOf returns a message's kind, 0 if it has none.
func KindOf(frames [][]byte) Kind {
	if len(frames) == 0 || len(frames[0]) == 0 {
		return 0
	}
	return Kind(frames[0][0])
}

// Unpack decodes a message's fields into the struct that fields points to.
func Unpack(frames [][]byte, fields any) error {
	if KindOf(frames) == 0 {
		return ErrMalformed
	}
	if err := codec.Unmarshal([][]byte{frames[0][1:]}, fields); err != nil {
		return fmt.Errorf("%w: %v: %v", ErrMalformed, KindOf(frames), err)
	}
	return nil
}
