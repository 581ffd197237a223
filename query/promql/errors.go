package promql

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream/millstream"
	prom "github.com/prometheus/prometheus/promql"
)

// Error is an error as the Prometheus HTTP API gives it.
type Error struct {
	Type   string // bad_data, execution, timeout, canceled, unavailable, internal
	Status int    // of HTTP
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func badData(err error) error { return &Error{Type: "bad_data", Status: 400, Err: err} }

func badParameter(name string, err error) error {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// AsError classifies any error. Errors of Millstream's kinds come from storage: their message is kept if it may be shown.
func AsError(err error) *Error {
	var e *Error
	var canceled prom.ErrQueryCanceled
	var timeout prom.ErrQueryTimeout
	var storage prom.ErrStorage
	var own *millstream.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &Error{Type: "canceled", Status: 499, Err: err}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &Error{Type: "timeout", Status: 503, Err: err}
	case errors.As(err, &own):
		return ofKind(own)
	case errors.As(err, &storage):
		return &Error{Type: "internal", Status: 500, Err: err}
	}
	return &Error{Type: "execution", Status: 422, Err: err}
}

func ofKind(err *millstream.Error) *Error {
	e := &Error{Err: errors.New(millstream.Message(err))}
	switch err.Kind {
	case millstream.Invalid, millstream.TooLarge:
		e.Type, e.Status = "bad_data", 400
	case millstream.NotFound:
		e.Type, e.Status = "not_found", 404
	case millstream.Unprocessable:
		e.Type, e.Status = "execution", 422
	case millstream.RateLimited:
		e.Type, e.Status = "unavailable", 429
	case millstream.Unavailable:
		e.Type, e.Status = "unavailable", 503
	case millstream.Timeout:
		e.Type, e.Status = "timeout", 503
	case millstream.Canceled:
		e.Type, e.Status = "canceled", 499
	default:
		e.Type, e.Status, e.Err = "internal", 500, err
	}
	return e
}

// AppendError appends the body of an error's answer. What is internal is not shown.
func AppendError(dst []byte, err error) ([]byte, int) {
	e := AsError(err)
	msg := e.Err.Error()
	if e.Type == "internal" {
		msg = "internal error"
	}
	dst = append(dst, `{"status":"error","errorType":`...)
	dst = millstream.AppendJSONString(dst, e.Type)
	dst = append(dst, `,"error":`...)
	return append(millstream.AppendJSONString(dst, msg), '}'), e.Status
}
