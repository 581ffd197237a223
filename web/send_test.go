package web

import (
	"context"
	"strings"
	"testing"

	"github.com/millstream/millstream/internal/auth"
)

func TestSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *Config) { c.ExternalURL = "https://ms.example.com/b" })
	r := w.reader().signIn()
	body := r.get("/shop/send?sender=fluentbit&stream=shop-prod").body
	for _, want := range []string{"host: ms.example.com", "port: 443", "tls: on", "logs_uri: /b/v1/logs", "stream-name shop-prod", `data-signal="logs"`, `data-stream="shop-prod"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for sender, named := range map[string]bool{"fluentbit": true, "json": true, "otlp": false, "loki": false} {
		if got := strings.Contains(r.get("/shop/send?sender="+sender).body, `id="stream"`); got != named {
			t.Errorf("%s: the name of the stream is asked for: %t", sender, got)
		}
	}
	for _, odd := range []string{"?sender=nothing", "?stream=%24(reboot)", "?stream=a%22%3Bb"} {
		if a := r.get("/shop/send" + odd); a.code != 200 || strings.Contains(a.body, "reboot") || strings.Contains(a.body, "b/api/v1/intake/json/a&#34;;b") {
			t.Errorf("%s: %d", odd, a.code)
		}
	}
	a := r.send("/shop/send", "/shop/send", "sender", "json", "stream", "shop-prod", "name", "laptop")
	token := apiToken.FindString(a.body)
	if a.code != 201 || !strings.Contains(a.body, "https://ms.example.com/b/api/v1/intake/json/shop-prod") || strings.Contains(a.body, "$TOKEN") {
		t.Fatalf("%d %s", a.code, a.body)
	}
	if who, err := w.auth.Authenticate(context.Background(), "Bearer "+token, ""); err != nil || who.Scopes != auth.Intake {
		t.Errorf("%+v, %v", who, err)
	}
	if a := r.send("/shop/send", "/shop/send", "sender", "json", "stream", "x", "name", " "); a.code != 400 || a.alert() == "" {
		t.Errorf("without a name: %d", a.code)
	}
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+w.grant().Token, "")
	must(t, err)
	_, _, err = w.auth.AddMember(context.Background(), who, auth.NewMember{Email: "bob@example.com", Role: auth.Viewer, Password: password}, auth.Entry{Action: "user.create", Org: who.Org})
	must(t, err)
	bob := w.reader()
	bob.send("/login", "/login", "email", "bob@example.com", "password", password)
	if a := bob.send("/shop/send", "/shop/send", "sender", "json", "stream", "x", "name", "x"); a.code != 403 || !strings.Contains(a.alert(), "may not send") {
		t.Errorf("a viewer: %d %q", a.code, a.alert())
	}
}
