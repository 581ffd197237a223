package web

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

func TestChangePassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r, other := w.reader().signIn(), w.reader().signIn()
	for name, c := range map[string]struct {
		current, next string
		code          int
		field         string
	}{
		"a wrong password": {"wrong password", "another long password", 403, "current"},
		"a short one":      {password, "short", 400, "password"},
	} {
		a := r.send("/settings", "/settings/password", "current", c.current, "password", c.next)
		if a.code != c.code || !strings.Contains(a.body, `id="`+c.field+`" name="`+c.field+`" aria-invalid="true"`) || strings.Contains(a.body, c.next) {
			t.Errorf("%s: %d %q", name, a.code, a.alert())
		}
	}
	if a := r.send("/settings", "/settings/password", "current", password, "password", "another long password"); a.code != 303 || a.header.Get("Location") != "/settings?done=password" {
		t.Errorf("%d %q", a.code, a.alert())
	}
	if !r.signedIn() || other.signedIn() {
		t.Error("the own session must go on and the other end")
	}
}

// The page is rendered with the reader's preferences, and the look of this browser without a flash.
func TestPreferencesOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+w.grant().Token, "")
	must(t, err)
	_, err = w.store.SetPreferences(context.Background(), store.Author{Org: who.Org, User: who.User}, store.AnyVersion,
		store.Draft{Summary: json.RawMessage(`{}`), Body: json.RawMessage(`{"clock":"12h","time_zone":"Europe/Vienna"}`)}, auth.Entry{Action: "preferences.update", Org: who.Org})
	must(t, err)
	body := r.get("/settings", "Cookie", "ms_look=dark.compact; "+cookieHeader(r)).body
	for _, want := range []string{`<option value="12h" selected`, `value="Europe/Vienna"`, `data-theme="dark"`, `data-density="compact"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in the page", want)
		}
	}
	if body := r.get("/settings", "Cookie", `ms_look="><script>.x; `+cookieHeader(r)).body; strings.Contains(body, "data-theme") {
		t.Error("an unknown look is repeated")
	}
}

// cookieHeader is what the reader's browser sends.
func cookieHeader(r *reader) string {
	var all []string
	u, err := url.Parse(r.base)
	must(r.t, err)
	for _, c := range r.client.Jar.Cookies(u) {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	if a := r.get("/settings/configuration"); a.code != 200 || !strings.Contains(a.body, "MS_HTTP_LISTEN") || !strings.Contains(a.body, "&lt;b&gt;:5080") {
		t.Errorf("%d", a.code)
	}
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+w.grant().Token, "")
	must(t, err)
	_, _, err = w.auth.AddMember(context.Background(), who, auth.NewMember{Email: "bob@example.com", Role: auth.Editor, Password: password}, auth.Entry{Action: "user.create", Org: who.Org})
	must(t, err)
	bob := w.reader()
	bob.send("/login", "/login", "email", "bob@example.com", "password", password)
	if a := bob.get("/settings/configuration"); a.code != 403 {
		t.Errorf("an editor: %d", a.code)
	}
}

// running is one query of the organization.
type running struct{ canceled chan string }

func (q running) Running(context.Context, *auth.Principal) ([]query.Running, []string, error) {
	return []query.Running{{ID: "q1", Node: "q-2", User: email, Statement: "SELECT '<script>'", Started: time.Now(), ScannedRows: 12345}}, []string{"the querier q-3 cannot be reached"}, nil
}

func (q running) CancelQuery(_ context.Context, _ *auth.Principal, id string) error {
	q.canceled <- id
	return nil
}

func TestStatusPage(t *testing.T) {
	t.Parallel()
	q := running{make(chan string, 1)}
	healthy := true
	w := newWorld(t, false, func(c *Config) {
		c.Queries = q
		c.Checks = func(context.Context) []ui.Check {
			return []ui.Check{{Name: "database", OK: healthy, Message: "no <answer>"}}
		}
	})
	r := w.reader().signIn()
	body := r.get("/cluster/status").body
	for _, want := range []string{"Everything works", "&lt;script&gt;", "12,345", "Write path", "<td>q-2</td>", "The querier q-3 cannot be reached."} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	healthy = false
	fragment := r.get("/cluster/status", "HX-Request", "true").body
	if strings.Contains(fragment, "<html") || !strings.Contains(fragment, "Database does not work: no &lt;answer&gt;.") || strings.Contains(fragment, "Everything works") {
		t.Errorf("the changing part: %s", fragment)
	}
	if a := r.send("/cluster/status", "/cluster/status/cancel", "id", "q1"); a.code != 303 || <-q.canceled != "q1" {
		t.Errorf("canceling: %d", a.code)
	}
}
