package millstream

import (
	"context"
	"errors"
	"fmt"
)

// Kind classifies an error for whoever has to answer it. The HTTP and gRPC tables map kinds, nothing else.
type Kind uint8

// The kinds. Internal is the zero value: an unclassified error is ours.
const (
	Internal Kind = iota
	Invalid
	Unauthenticated
	Forbidden
	NotFound
	Conflict
	TooLarge
	Unsupported
	Unprocessable
	RateLimited
	Unavailable
	Timeout
	Canceled
)

// Error is an error with a kind. Msg is safe to show to whoever asked; Err is the cause and goes to the log only.
type Error struct {
	Kind       Kind
	Msg        string
	Hint       string // what to do about it
	Position   int    // 1-based character of the input the message is about; 0 = none
	RetryAfter int    // seconds, for RateLimited and Unavailable; 0 = the default
	Err        error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind whose message is safe to show; to keep a cause for the log, use Wrap.
func Errorf(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// Wrap gives a cause a kind and a message that is safe to show.
func Wrap(k Kind, cause error, format string, args ...any) error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...), Err: cause}
}

// KindOf classifies any error: the outermost Error decides, context errors classify themselves, all else is Internal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}

// Message is what may be shown of an error: its own message, or a general one for what is internal.
func Message(err error) string {
	var e *Error
	switch {
	case errors.As(err, &e) && e.Kind != Internal:
		return e.Msg
	case errors.Is(err, context.DeadlineExceeded):
		return "the deadline passed before the work was done"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "internal error"
}
