package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal records what services did, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) { j.mu.Lock(); j.lines = append(j.lines, s); j.mu.Unlock() }

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) service(name string, drain time.Duration) Service {
	return Service{Name: name, Run: func(ctx context.Context, ready func()) error {
		j.add("start " + name)
		ready()
		<-ctx.Done()
		time.Sleep(drain)
		j.add("stop " + name)
		return nil
	}}
}

var quiet = slog.New(slog.DiscardHandler)

func TestRunStartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Run(ctx, quiet, 10*time.Second, j.service("a", 0), j.service("b", time.Second), j.service("c", 2*time.Second)); err != nil {
			t.Fatal(err)
		}
		want := []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}
		if !slices.Equal(j.read(), want) {
			t.Errorf("%v, want %v", j.read(), want)
		}
	})
}

func TestRunStopsTheOthersWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		boom := errors.New("boom")
		err := Run(context.Background(), quiet, time.Second, j.service("a", 0), Service{Name: "b", Run: func(_ context.Context, ready func()) error {
			ready()
			time.Sleep(time.Minute)
			return boom
		}})
		if !errors.Is(err, boom) || !slices.Equal(j.read(), []string{"start a", "stop a"}) {
			t.Errorf("%v %v", err, j.read())
		}
	})
}

func TestRunDoesNotStartWhatComesAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		boom := errors.New("boom")
		err := Run(context.Background(), quiet, time.Second, j.service("a", 0),
			Service{Name: "b", Run: func(context.Context, func()) error { return boom }}, j.service("c", 0))
		if !errors.Is(err, boom) || slices.Contains(j.read(), "start c") {
			t.Errorf("%v %v", err, j.read())
		}
	})
}

func TestRunGivesEachServiceItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		slow := j.service("slow", time.Hour)
		patient := j.service("patient", 30*time.Second)
		patient.Grace = time.Minute
		err := Run(ctx, quiet, 5*time.Second, patient, slow)
		if !errors.Is(err, ErrGrace) || !strings.Contains(err.Error(), "slow") || !slices.Contains(j.read(), "stop patient") {
			t.Errorf("%v %v", err, j.read())
		}
		time.Sleep(2 * time.Hour) // lets the slow one end inside the bubble
	})
}

func TestRunReportsAServiceThatReturnsUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Run(context.Background(), quiet, time.Second, Service{Name: "brief", Run: func(_ context.Context, ready func()) error { ready(); return nil }})
		if err == nil || !strings.Contains(err.Error(), "brief") {
			t.Errorf("%v", err)
		}
	})
}
