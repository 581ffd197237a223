package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"github.com/millstream/millstream/api"
	"github.com/millstream/millstream/internal/config"
)

// serveHTTP answers the API, or health and metrics alone, until ctx ends, then finishes the requests it has.
func (p *parts) serveHTTP(ctx context.Context, ready func()) error {
	full, code := p.cfg.Node.Has(config.Router), ""
	if full {
		var err error
		if code, err = p.auth.Start(ctx, p.cfg.Auth.RootEmail, p.cfg.Auth.RootPassword); err != nil {
			return fmt.Errorf("prepare sign-in: %w", err)
		}
	}
	l, err := net.Listen("tcp", p.cfg.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("[http].listen: %w", err)
	}
	srv := api.Server(p.handler, p.log)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	p.log.Info("listening", "setting", "[http].listen", "address", l.Addr().String())
	if full {
		p.welcome(l.Addr(), code)
	}
	ready()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	p.api.EndStreams()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Grace())
	defer cancel()
	err = srv.Shutdown(bounded)
	if serr := <-served; err == nil && !errors.Is(serr, http.ErrServerClosed) {
		err = serr
	}
	return err
}

// serveOTLP answers OTLP gRPC until ctx ends, then finishes the calls it has.
func (p *parts) serveOTLP(ctx context.Context, ready func()) error {
	return p.serveCalls(ctx, ready, "[otlp].listen", p.cfg.OTLP.Listen, p.api.GRPC())
}

// serveCalls runs a gRPC server at the address of a setting.
func (p *parts) serveCalls(ctx context.Context, ready func(), setting, address string, srv *grpc.Server) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	p.log.Info("listening", "setting", setting, "address", l.Addr().String())
	ready()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	done := make(chan struct{})
	go func() { srv.GracefulStop(); close(done) }()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Grace())
	defer cancel()
	select {
	case <-done:
	case <-bounded.Done():
		srv.Stop()
		<-done
	}
	return nil
}

// welcome says where the node is and how to sign in.
func (p *parts) welcome(addr net.Addr, code string) {
	url := p.cfg.HTTP.ExternalURL
	if url == "" {
		host, port, _ := net.SplitHostPort(addr.String())
		if ip := net.ParseIP(host); ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
			host = "localhost"
		}
		url = "http://" + net.JoinHostPort(host, port) + p.cfg.HTTP.BasePath
	}
	url = strings.TrimSuffix(url, "/")
	p.log.Info("serving", "url", url+"/", "otlp_grpc", p.cfg.OTLP.Listen)
	if code != "" {
		p.log.Info("there is no user yet: open the URL to create the first owner with this one-time code", "url", url+"/setup?code="+code, "setup_code", code)
	}
}
