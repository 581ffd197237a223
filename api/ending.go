package api

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/millstream/millstream"
)

// ending ends the replies that would go on for ever, so that a server which waits for its requests can stop.
type ending struct {
	once sync.Once
	now  chan struct{}
}

var errEnding = errors.New("the node stops")

// EndStreams ends live tails and event streams: their clients come back, to another node or to this one's next start. A server calls it when it takes no more
// requests and waits for those it has.
func (a *API) EndStreams() { a.ending.once.Do(func() { close(a.ending.now) }) }

// shareEnding makes sure that all handlers of a node end together.
func (a *API) shareEnding() {
	if a.ending == nil {
		a.ending = &ending{now: make(chan struct{})}
	}
}

// bound makes an endless reply end well when the node stops.
func (e *ending) bound(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		over := make(chan struct{})
		defer close(over)
		go func() { // ends with the reply
			select {
			case <-e.now:
				cancel(errEnding)
			case <-over:
			}
		}()
		err := h(w, r.WithContext(ctx))
		if !errors.Is(context.Cause(ctx), errEnding) {
			return err
		}
		if out, ok := w.(*writer); ok && out.status == 0 {
			return millstream.Wrap(millstream.Unavailable, errEnding, "the node stops: try again")
		}
		return nil // the client has all that there was
	}
}
