package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/app"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/store"
)

// walCommand shows and changes the registry of WALs. With the node's own database, the node must be stopped: the command starts the server for itself.
func walCommand(ctx context.Context, cfg *config.Config, args []string, stdout, stderr io.Writer) error {
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
	quiet := *cfg
	quiet.Telemetry.LogLevel = "warn" // the log would hide the answer
	return app.WithStore(ctx, &quiet, app.Options{Version: version, Stderr: stderr}, func(st *store.Store, _ *slog.Logger) error {
		switch action {
		case "adopt":
			if err := st.AdoptWAL(ctx, id); err != nil {
				return err
			}
			_, err := fmt.Fprintf(stdout, "the next start takes WAL %s as its directory is\n", id)
			return err
		case "discard":
			if err := st.DiscardWAL(ctx, id); err != nil {
				return err
			}
			_, err := fmt.Fprintf(stdout, "WAL %s is discarded; its unflushed rows are given up\n", id)
			return err
		}
		return listWALs(ctx, st, stdout)
	})
}

func listWALs(ctx context.Context, st *store.Store, stdout io.Writer) error {
	wals, err := st.WALs(ctx)
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
