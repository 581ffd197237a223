package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInForce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ms.toml")
	if err := os.WriteFile(path, []byte("[http]\nlisten = \"127.0.0.1:1\"\n[telemetry]\nlog_level = \"debug\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("correct horse battery"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"MS_TELEMETRY_LOG_LEVEL=warn", "MS_AUTH_ROOT_EMAIL=ada@example.com", "MS_AUTH_ROOT_PASSWORD_FILE=" + secret, "PATH=/bin"}
	c, err := Load(path, environ)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Effective{}
	for _, e := range InForce(&c, path, environ) {
		got[e.Name] = e
	}
	for name, want := range map[string]Effective{
		"[http].listen":          {Value: "127.0.0.1:1", Source: "file"},
		"[telemetry].log_level":  {Value: "warn", Source: "environment"},
		"[telemetry].log_format": {Value: "text", Source: "default"},
		"[auth].root_password":   {Value: "(set)", Source: "environment"},
		"[database].url":         {Value: "", Source: "default"},
	} {
		if g := got[name]; g.Value != want.Value || g.Source != want.Source || g.Env == "" || g.Doc == "" {
			t.Errorf("%s: %+v, want %+v", name, g, want)
		}
	}
}
