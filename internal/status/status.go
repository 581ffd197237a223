// Package status is the one table from error kinds to HTTP, shared by the API and the web pages.
package status

import (
	"errors"

	"github.com/millstream/millstream"
)

// ClientClosed is the status of a request whose client went away; it is seen in logs and metrics only.
const ClientClosed = 499

var table = [...]struct {
	http int
	code string
}{
	millstream.Internal:        {500, "internal"},
	millstream.Invalid:         {400, "invalid_argument"},
	millstream.Unauthenticated: {401, "unauthenticated"},
	millstream.Forbidden:       {403, "permission_denied"},
	millstream.NotFound:        {404, "not_found"},
	millstream.Conflict:        {409, "conflict"},
	millstream.TooLarge:        {413, "too_large"},
	millstream.Unsupported:     {415, "unsupported_media_type"},
	millstream.Unprocessable:   {422, "unprocessable"},
	millstream.RateLimited:     {429, "rate_limited"},
	millstream.Unavailable:     {503, "unavailable"},
	millstream.Timeout:         {504, "timeout"},
	millstream.Canceled:        {ClientClosed, "canceled"},
}

// HTTP is the status of a kind; an unknown kind is internal.
func HTTP(k millstream.Kind) int {
	if int(k) >= len(table) {
		k = millstream.Internal
	}
	return table[k].http
}

// Code is the machine-readable word for a kind in error bodies.
func Code(k millstream.Kind) string {
	if int(k) >= len(table) {
		k = millstream.Internal
	}
	return table[k].code
}

// Seconds until a client should try again when the error itself does not say.
const (
	retryRateLimited = 1
	retryUnavailable = 5
)

// RetryAfter is the value of the Retry-After header in seconds, 0 for kinds that carry none.
func RetryAfter(err error) int {
	k := millstream.KindOf(err)
	if k != millstream.RateLimited && k != millstream.Unavailable {
		return 0
	}
	var e *millstream.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	if k == millstream.RateLimited {
		return retryRateLimited
	}
	return retryUnavailable
}
