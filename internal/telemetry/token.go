package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// authenticator finds out what a token may; *auth.Service fits.
type authenticator interface {
	Authenticate(ctx context.Context, header, slug string) (*auth.Principal, error)
}

// complainEvery is how often it is said that the token is of no use.
const complainEvery = time.Minute

// ByToken is Config.Org of a node without intake: an API token that may write telemetry says whose the node's own is. Until it does, the collector keeps what
// fits into its queue, and says loudly that it does.
func ByToken(a authenticator, token string, log *slog.Logger, now func() time.Time) func(ctx context.Context) (millstream.OrgID, bool) {
	var mu sync.Mutex
	var said time.Time
	complain := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if at := now(); said.IsZero() || at.Sub(said) >= complainEvery {
			said = at
			log.Error("own telemetry cannot be sent: [self_telemetry].cluster_token must be an API token with the scope intake", own, true, "error", err)
		}
	}
	return func(ctx context.Context) (millstream.OrgID, bool) {
		p, err := a.Authenticate(ctx, "Bearer "+token, "")
		if err == nil && !p.May(auth.Intake, auth.Editor) {
			err = millstream.Errorf(millstream.Forbidden, "the token lacks the scope intake")
		}
		if err != nil {
			complain(err)
			return "", false
		}
		return p.Org, true
	}
}
