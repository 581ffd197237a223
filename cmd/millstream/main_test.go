package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

// What config prints is a configuration file that gives the same configuration.
func TestConfigReadsBack(t *testing.T) {
	environ := []string{"MS_NODE_ID=a \"quoted\" name", `MS_HTTP_TRUSTED_PROXIES=["10.0.0.0/8","fd00::/8"]`, "MS_WAL_SEGMENT_SIZE=3 MiB", "MS_TELEMETRY_SELF_COLLECT=false"}
	var first, second bytes.Buffer
	if err := run(context.Background(), []string{"config"}, environ, &first, &first); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ms.toml")
	if err := os.WriteFile(file, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"config", "--config", file}, nil, &second, &second); err != nil {
		t.Fatalf("%v\n%s", err, first.String())
	}
	if first.String() != second.String() {
		t.Errorf("printed\n%s\nread back\n%s", first.String(), second.String())
	}
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		args, environ []string
		out, err      string
	}{
		"version":             {args: []string{"version"}, out: "millstream dev"},
		"help":                {args: []string{"help"}, out: "run a node"},
		"reference":           {args: []string{"reference"}, out: "MS_NODE_DATA_DIR"},
		"config":              {args: []string{"config"}, environ: []string{"MS_AUTH_ROOT_EMAIL=a@b.c", "MS_AUTH_ROOT_PASSWORD=very secret words"}, out: "# root_password is set"},
		"unknown command":     {args: []string{"sevre"}, err: `unknown command "sevre"`},
		"unknown variable":    {args: []string{"serve"}, environ: []string{"MS_NODE_RLES=x"}, err: "did you mean MS_NODE_ROLES?"},
		"split roles":         {args: []string{"serve"}, environ: []string{`MS_NODE_ROLES=["router"]`}, err: "[database].url"},
		"unexpected argument": {args: []string{"serve", "now"}, err: "unexpected argument"},
		"wal without an id":   {args: []string{"wal", "adopt"}, err: "adopt <id>"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			err := run(context.Background(), c.args, c.environ, &out, &log)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if !strings.Contains(out.String(), c.out) || strings.Contains(out.String(), "very secret") {
				t.Errorf("output %q, want %q in it and no secret", out.String(), c.out)
			}
		})
	}
}

func TestComplaint(t *testing.T) {
	err := millstream.Errorf(millstream.Conflict, "the directory is another one").(*millstream.Error)
	err.Hint = "put the right one back"
	if got := complaint(fmt.Errorf("intake: %w", err)); got != "intake: the directory is another one\nput the right one back" {
		t.Errorf("got %q", got)
	}
	if got := complaint(errors.New("no")); got != "no" {
		t.Errorf("got %q", got)
	}
}
