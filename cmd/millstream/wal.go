package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/internal/telemetry"
)

// walCommand shows and changes the registry of WALs. With the node's own database, the node must be stopped: the command starts the server for itself.
func walCommand(ctx context.Context, cfg *config.Config, args []string, stdout, stderr io.Writer) (err error) {
	action, id := "list", millstream.WALID("")
	if len(args) > 0 {
		action = args[0]
	}
	switch {
	case action == "list" && len(args) <= 1:
	case (action == "adopt" || action == "discard") && len(args) == 2:
		id = millstream.WALID(args[1])
	default:
		return fmt.Errorf("wal takes list, adopt <id> or discard <id>\n\n%s", usage)
	}
	p := &parts{cfg: cfg, registry: newRegistry()}
	p.log, _ = telemetry.NewLogger(stderr, "warn", cfg.Telemetry.LogFormat)
	db, err := p.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, db.close()) }()
	switch action {
	case "adopt":
		if err := p.store.AdoptWAL(ctx, id); err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "the next start takes WAL %s as its directory is\n", id)
		return err
	case "discard":
		if err := p.store.DiscardWAL(ctx, id); err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "WAL %s is discarded; its unflushed rows are given up\n", id)
		return err
	}
	return p.listWALs(ctx, stdout)
}

func (p *parts) listWALs(ctx context.Context, stdout io.Writer) error {
	wals, err := p.store.WALs(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNODE\tINCARNATION\tPOSITION\tCLEAN\tLAST PUBLISH")
	for _, x := range wals {
		last := "never"
		if !x.LastPublish.IsZero() {
			last = millstream.FormatTime(x.LastPublish.UnixNano())
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%t\t%s\n", x.ID, x.Node, x.Incarnation, x.Position, x.Clean, last)
	}
	return w.Flush()
}
