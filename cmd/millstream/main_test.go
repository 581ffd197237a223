package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		args, environ []string
		out, err      string
	}{
		"version":             {args: []string{"version"}, out: "millstream dev"},
		"help":                {args: []string{"help"}, out: "run a node"},
		"reference":           {args: []string{"reference"}, out: "MS_NODE_DATA_DIR"},
		"config":              {args: []string{"config"}, environ: []string{"MS_AUTH_ROOT_EMAIL=a@b.c", "MS_AUTH_ROOT_PASSWORD=very secret words"}, out: "root_password = (set)"},
		"unknown command":     {args: []string{"sevre"}, err: `unknown command "sevre"`},
		"unknown variable":    {args: []string{"serve"}, environ: []string{"MS_NODE_RLES=x"}, err: "did you mean MS_NODE_ROLES?"},
		"split roles":         {args: []string{"serve"}, environ: []string{`MS_NODE_ROLES=["router"]`}, err: "[node].roles"},
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
