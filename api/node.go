package api

import (
	"context"
	"net/http"

	"github.com/millstream/millstream/internal/auth"
)

// flusher publishes what is unflushed. *ingest.Writer fits.
type flusher interface {
	Flush(ctx context.Context) error
}

func (a *API) nodeRoutes() []route {
	return []route{{method: "POST", path: v1 + "/node/flush", policy: need(auth.Administer, auth.Admin).audited("node.flush"), handle: a.flush,
		doc: operation{summary: "Publish everything that was acknowledged before the call, now instead of at the next interval"}}}
}

func (a *API) flush(w http.ResponseWriter, r *http.Request) error {
	if err := a.Flusher.Flush(r.Context()); err != nil {
		return err
	}
	return empty(w)
}
