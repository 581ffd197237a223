// Command millstream is the whole product: one binary, whose subcommands serve, migrate and explain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/app"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/store"
)

// version is set by the build.
var version = "dev"

const usage = `Millstream stores logs, metrics and traces and answers SQL and PromQL over them.

  millstream [serve] [--config file]    run a node (the default)
  millstream migrate [--config file]    bring the database's schema up to date and exit
  millstream wal     [--config file] list | adopt <id> | discard <id>
                                        see the registered WALs, take one over from another directory, or give its rows up
  millstream config  [--config file]    show the configuration in effect, secrets hidden
  millstream reference                  print the configuration reference
  millstream version                    print the version

Every setting has an environment variable; see docs/reference.md.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "millstream: %s\n", complaint(err))
		os.Exit(1)
	}
}

// complaint is an error with what to do about it.
func complaint(err error) string {
	var known *millstream.Error
	if errors.As(err, &known) && known.Hint != "" {
		return err.Error() + "\n" + known.Hint
	}
	return err.Error()
}

func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	switch command {
	case engine.ChildArg:
		return engine.ChildMain()
	case "version":
		_, err := fmt.Fprintln(stdout, "millstream", version)
		return err
	case "reference":
		return config.WriteReference(stdout)
	case "help":
		_, err := io.WriteString(stdout, usage)
		return err
	case "serve", "migrate", "config", "wal":
	default:
		return fmt.Errorf("unknown command %q\n\n%s", command, usage)
	}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	file := flags.String("config", "", "configuration file (TOML)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 && command != "wal" {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	cfg, err := config.Load(*file, environ)
	if err != nil {
		return fmt.Errorf("the configuration is not usable:\n%w", err)
	}
	options := app.Options{Version: version, Settings: config.InForce(&cfg, *file, environ), Stderr: stderr}
	switch command {
	case "migrate":
		return app.WithStore(ctx, &cfg, options, func(_ *store.Store, log *slog.Logger) error {
			log.Info("the database's schema is up to date")
			return nil
		})
	case "config":
		return showConfig(&cfg, stdout)
	case "wal":
		return walCommand(ctx, &cfg, flags.Args(), stdout, stderr)
	}
	app.LimitHeap(&cfg)
	return app.Run(ctx, &cfg, options)
}

// showConfig prints the settings in effect as a TOML file would say them.
func showConfig(cfg *config.Config, w io.Writer) error {
	section := ""
	for _, s := range config.Settings(cfg) {
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(w, "[%s]\n", section)
		}
		line := s.Key + " = " + s.TOML()
		if s.Secret && s.Text() != "" {
			line = "# " + s.Key + " is set"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
