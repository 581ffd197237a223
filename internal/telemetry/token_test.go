package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// tokens knows principals by their tokens.
type tokens map[string]*auth.Principal

func (k tokens) Authenticate(_ context.Context, header, slug string) (*auth.Principal, error) {
	if p := k[strings.TrimPrefix(header, "Bearer ")]; p != nil && slug == "" {
		return p, nil
	}
	return nil, errors.New("no such token")
}

func TestTheTokenDecidesTheOrganization(t *testing.T) {
	var text bytes.Buffer
	log, c := NewLogger(&text, "info", "text")
	now := time.Unix(0, 0)
	known := tokens{"reads": {Org: "r", Scopes: auth.Query, Role: auth.Editor}}
	to := &sink{}
	cfg := Config{Node: "n", To: to, Gatherer: prometheus.NewRegistry(), Log: log, Org: ByToken(known, "t", log, func() time.Time { return now })}
	log.Info("one")
	complaints := func() int { return strings.Count(text.String(), "cluster_token") }
	for range 3 {
		c.write(t.Context(), cfg)
	}
	if complaints() != 1 || len(to.got) != 0 || len(c.queue) != 1 {
		t.Errorf("a wrong token: %d complaints, %d batches, %d queued", complaints(), len(to.got), len(c.queue))
	}
	now = now.Add(complainEvery)
	c.write(t.Context(), cfg)
	if complaints() != 2 {
		t.Errorf("%d complaints after a minute", complaints())
	}
	known["t"] = &auth.Principal{Org: "o", Scopes: auth.Intake, Role: auth.Editor}
	c.write(t.Context(), cfg)
	if len(to.got) != 1 || to.got[0].Org != "o" || to.got[0].Name != millstream.SelfStream || to.got[0].Column("message").Str(0) != "one" || to.got[0].Rows() != 1 {
		t.Errorf("with a good token: %+v", to.got)
	}
	quiet, _ := NewLogger(io.Discard, "info", "text")
	if _, ok := ByToken(known, "reads", quiet, time.Now)(t.Context()); ok {
		t.Error("a token without the scope intake is taken")
	}
}
