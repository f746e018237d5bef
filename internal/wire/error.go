package wire

// Error is an error on its way between processes: the error of a function,
// flattened, with what errors.Is and errors.As need at the other end.
type Error struct {
	Func     string
	Worker   string
	Message  string
	Stack    string   // of a panic
	Panic    bool     //
	Matches  []string // names of the registered sentinel errors that it is
	Types    []string // names of the types of errors that it is
	Canceled bool     // is context.Canceled
	Replace  bool     // a task says with it that its worker is to be replaced
	Details  []string // the fields of the errors of Fiber's own that it wraps, msgpack
}

// Error returns only the message; package fiber makes a RemoteError of the rest.
func (e *Error) Error() string { return e.Message }
