package postgres

import (
	"context"
	"testing"
	"time"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFirstStartAndRestartAreQuick(t *testing.T) {
	dir := t.TempDir() + "/postgres"
	begin := time.Now()
	s := start(t, Options{DataDir: dir})
	t.Log("first start", time.Since(begin))
	begin = time.Now()
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Log("stop", time.Since(begin))
	begin = time.Now()
	start(t, Options{DataDir: dir})
	t.Log("restart", time.Since(begin))
}
