package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/query"
)

const (
	runningPath = v1 + "/query/running"
	// partTimeout is how long a querier may take for its part of an answer that all of them give.
	partTimeout = 3 * time.Second
	// maxPart bounds that part, in bytes.
	maxPart = 8 << 20
)

// Running lists the running queries of whom it is asked for, of this node and of every other querier, oldest first. The warnings name the queriers that did not say.
func (a *API) Running(ctx context.Context, by *auth.Principal) (list []query.Running, warnings []string, err error) {
	parts, err := a.askQueriers(ctx, by, http.MethodGet, "")
	if err != nil {
		return nil, nil, err
	}
	list = []query.Running{}
	if a.Queries != nil {
		list = append(list, a.Queries.Running(by.Org)...)
		for i := range list {
			list[i].Node = a.Node
		}
	}
	for _, p := range parts {
		var view runningQueriesView
		if p.err == nil && p.status == http.StatusOK {
			p.err = json.Unmarshal(p.body.Bytes(), &view)
		}
		if p.err != nil || p.status != http.StatusOK {
			a.Log.Warn("a querier does not say what runs on it", "node", p.node, "status", p.status, keyError, p.err)
			warnings = append(warnings, fmt.Sprintf("the querier %s cannot be reached: its queries are not listed", p.node))
			continue
		}
		list = append(list, view.Queries...)
	}
	slices.SortStableFunc(list, func(x, y query.Running) int { return x.Started.Compare(y.Started) })
	return list, warnings, nil
}

// CancelQuery ends a query without an answer, wherever it runs. An id that runs nowhere is NotFound.
func (a *API) CancelQuery(ctx context.Context, by *auth.Principal, id string) error {
	return a.endQuery(ctx, by, id, http.MethodDelete, "", runningQueries.Cancel)
}

// StopQuery ends a query with the rows that are ready, wherever it runs. An id that runs nowhere is NotFound.
func (a *API) StopQuery(ctx context.Context, by *auth.Principal, id string) error {
	return a.endQuery(ctx, by, id, http.MethodPost, "/stop", runningQueries.Stop)
}

func (a *API) endQuery(ctx context.Context, by *auth.Principal, id, method, verb string, end func(runningQueries, millstream.OrgID, string) error) error {
	unknown := millstream.Errorf(millstream.NotFound, "there is no running query %q", id)
	found := false
	if a.Queries != nil {
		switch err := end(a.Queries, by.Org, id); {
		case err == nil:
			found = true
		case millstream.KindOf(err) != millstream.NotFound:
			return err
		}
	}
	parts, err := a.askQueriers(ctx, by, method, "/"+url.PathEscape(id)+verb)
	if err != nil {
		return err
	}
	var silent []string
	for _, p := range parts {
		switch {
		case p.err == nil && p.status == http.StatusNoContent:
			found = true
		case p.err != nil || p.status != http.StatusNotFound:
			silent = append(silent, string(p.node))
		}
	}
	switch {
	case found:
		return nil
	case len(silent) > 0:
		return millstream.Errorf(millstream.Unavailable, "the query %q runs on none of the queriers that answer; it may run on %s, which cannot be reached", id, strings.Join(silent, ", "))
	}
	return unknown
}

// part is what one querier said.
type part struct {
	node   millstream.NodeID
	status int
	body   bytes.Buffer
	err    error // it said nothing, or not all

	header http.Header
}

// askQueriers asks every other querier the same, at once; path is below that of the running queries. Without any, here or elsewhere, the answer is an error.
func (a *API) askQueriers(ctx context.Context, by *auth.Principal, method, path string) ([]*part, error) {
	others := slices.DeleteFunc(a.Peers.queriers(), func(m millstream.Member) bool { return a.Queries != nil && string(m.ID) == a.Node })
	if len(others) == 0 {
		if a.Queries == nil {
			return nil, errNoQuerier
		}
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	raw := runningPath + path
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return nil, err
	}
	principal := by.Encode()
	parts := make([]*part, len(others))
	var wg sync.WaitGroup
	for i, m := range others {
		p := &part{node: m.ID, header: http.Header{}}
		parts[i] = p
		r := request(ctx, method, &url.URL{Path: plain, RawPath: raw}, nil)
		if c, ok := ctx.Value(callKey{}).(*call); ok {
			r.Header.Set("X-Request-Id", c.id)
		}
		wg.Go(func() { p.err = a.Peers.To(m).Forward(p, r, principal) })
	}
	wg.Wait()
	slices.SortFunc(parts, func(x, y *part) int { return strings.Compare(string(x.node), string(y.node)) })
	return parts, nil
}

// Header implements http.ResponseWriter.
func (p *part) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *part) WriteHeader(code int) { p.status = code }

func (p *part) Write(b []byte) (int, error) {
	if p.body.Len()+len(b) > maxPart {
		return 0, millstream.Errorf(millstream.TooLarge, "the reply has more than %d bytes", maxPart)
	}
	return p.body.Write(b)
}

func (a *API) listRunning(w http.ResponseWriter, r *http.Request) error {
	list, warnings, err := a.Running(r.Context(), who(r))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, runningQueriesView{list, warnings})
}

func (a *API) cancelQuery(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := a.CancelQuery(r.Context(), who(r), id); err != nil {
		return err
	}
	return empty(w)
}

func (a *API) stopQuery(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := a.StopQuery(r.Context(), who(r), id); err != nil {
		return err
	}
	return empty(w)
}
