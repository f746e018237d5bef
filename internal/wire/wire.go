// Package wire defines the messages that Fiber's processes exchange.
//
// A message is a list of frames. Its first frame is the kind and the fields,
// the frames after it are an encoded value of the user's (see codec). The
// messages of a task's way, Batch and Results, and those between users and homes
// of objects are packed by hand because there is one for every task or call; the
// others are codec's, which takes no more memory than a message's length
// accounts for.
package wire

import (
	"errors"
	"fmt"

	"github.com/fiber-go/fiber/internal/codec"
)

// Version is the protocol's; two processes talk only when theirs are equal.
const Version = 3

// Kind says what a message is; it is the first byte of its first frame.
type Kind byte

// The messages, with who sends them.
const (
	KindHello      Kind = 1 + iota // child: who it is and what it was built from
	KindRefuse                     // parent: the hello does not fit
	KindAssign                     // parent: what to do
	KindDone                       // child: the assigned function has returned
	KindStop                       // parent: end when what you hold is done
	KindStatus                     // child: how it is
	KindReady                      // worker: its initializer has run
	KindBatch                      // pool: tasks to run
	KindResults                    // worker: results, and what it starts next
	KindRecall                     // pool: give back what you have not started
	KindReturned                   // worker: what it gives back
	KindCancel                     // pool: these tasks are not wanted any more
	KindVisit                      // anybody, to a home: who it is
	KindRequest                    // anybody, to a home: do this with an object
	KindReply                      // home: the answer
	KindGiveUp                     // anybody, to a home: the answer is not wanted any more
	KindHold                       // anybody, to a home: an object is in use
	KindRelease                    // anybody, to a home: it is not any more
	KindNotice                     // home: something that was not asked
	KindBye                        // either: the end of the connection is no accident
	KindStream                     // parent, child: bytes of the streams between them
	KindMember                     // rank: where its left neighbour finds it
	KindMembers                    // parent: all ranks of the ring
	KindBroken                     // rank, parent: the ring has failed, and why
	KindMeet                       // rank, to its right neighbour: who it is
	KindMessage                    // rank, to a neighbour: a value
	KindCollective                 // rank, to its right neighbour: what begins
	KindKill                       // parent: end at once
	KindTerminate                  // parent: end, and what you run is not wanted any more
	KindTaken                      // who got results, or an answer: what they name is held here
)

var names = [...]string{KindHello: "hello", KindRefuse: "refuse", KindAssign: "assign", KindDone: "done",
	KindStop: "stop", KindStatus: "status", KindReady: "ready",
	KindBatch: "batch", KindResults: "results", KindRecall: "recall", KindReturned: "returned",
	KindCancel: "cancel", KindVisit: "visit", KindRequest: "request", KindReply: "reply", KindGiveUp: "give up",
	KindHold: "hold", KindRelease: "release", KindNotice: "notice", KindBye: "bye", KindStream: "stream",
	KindMember: "member", KindMembers: "members", KindBroken: "broken", KindMeet: "meet", KindMessage: "message",
	KindCollective: "collective", KindKill: "kill",
	KindTerminate: "terminate", KindTaken: "taken"}

func (k Kind) String() string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// ErrMalformed is what decoding a message that no Fiber sends gives.
var ErrMalformed = errors.New("fiber: malformed message")

// Pack makes a message of kind with fields (nil for none) and the frames of a
// value behind them.
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

// KindOf reads a message's kind, 0 when it has none.
func KindOf(frames [][]byte) Kind {
	if len(frames) == 0 || len(frames[0]) == 0 {
		return 0
	}
	return Kind(frames[0][0])
}

// Unpack reads a message's fields into the struct that fields points to.
func Unpack(frames [][]byte, fields any) error {
	if KindOf(frames) == 0 {
		return ErrMalformed
	}
	if err := codec.Unmarshal([][]byte{frames[0][1:]}, fields); err != nil {
		return fmt.Errorf("%w: %v: %v", ErrMalformed, KindOf(frames), err)
	}
	return nil
}
