package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/wal"
)

func TestEveryKindHasACodeOfItsOwn(t *testing.T) {
	seen := map[codes.Code]bool{}
	for k := millstream.Internal; k <= millstream.Canceled; k++ {
		c := codeOf(k)
		if c == codes.OK || c == codes.Unknown || seen[c] || kindOf(c) != k {
			t.Errorf("kind %d has code %v, which reads as kind %d", k, c, kindOf(c))
		}
		seen[c] = true
	}
	if codeOf(millstream.Canceled+1) != codes.Internal || kindOf(codes.DataLoss) != millstream.Internal {
		t.Error("what the table lacks must be internal")
	}
}

// TestErrorsSurviveTheHop sends each kind of error over a real connection.
func TestErrorsSurviveTheHop(t *testing.T) {
	var answer error
	c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{write: func(context.Context, []*millstream.Batch) (int, error) { return 0, answer }}})
	for k := millstream.Internal; k <= millstream.Canceled; k++ {
		answer = &millstream.Error{Kind: k, Msg: "it is so: Größe \xff", Hint: "do that", Position: 7, RetryAfter: 42, Err: errors.New("the cause")}
		_, err := c.Write(t.Context(), logs(1, 1))
		var e *millstream.Error
		if !errors.As(err, &e) || e.Kind != k || e.Msg != "it is so: Größe \uFFFD" || e.Hint != "do that" || e.Position != 7 || e.RetryAfter != 42 {
			t.Errorf("kind %d became %#v", k, err)
		}
		if err == nil || !strings.Contains(err.Error(), "the cause") || !strings.Contains(err.Error(), "node peer at ") {
			t.Errorf("kind %d: %v does not tell the cause and the node", k, err)
		}
		if errors.Is(err, wal.ErrUnknown) {
			t.Errorf("kind %d: an answered write is not unknown", k)
		}
	}
}

func TestWhatCallersBranchOnSurvives(t *testing.T) {
	marks := []error{wal.ErrUnknown, ingest.ErrStale, ingest.ErrNotReady, ingest.ErrFenced}
	var answer error
	c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{write: func(context.Context, []*millstream.Batch) (int, error) { return 0, answer }}})
	for _, mark := range marks {
		for name, err := range map[string]error{
			"plain":   fmt.Errorf("stream x: %w", mark),
			"wrapped": millstream.Wrap(millstream.Unavailable, mark, "not now"),
		} {
			answer = err
			_, got := c.Write(t.Context(), logs(1, 1))
			for _, m := range marks {
				if errors.Is(got, m) != (m == mark) {
					t.Errorf("%s %v: errors.Is(%v, %v) is %v", name, mark, got, m, errors.Is(got, m))
				}
			}
			if millstream.KindOf(got) != millstream.KindOf(err) {
				t.Errorf("%s %v: kind %d, want %d", name, mark, millstream.KindOf(got), millstream.KindOf(err))
			}
		}
	}
}

func TestContextErrorsOfThePeerSurvive(t *testing.T) {
	for _, answer := range []error{context.DeadlineExceeded, fmt.Errorf("read: %w", context.Canceled)} {
		c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{flush: answer}})
		if err := c.Flush(t.Context()); millstream.KindOf(err) != millstream.KindOf(answer) {
			t.Errorf("%v became %v", answer, err)
		}
	}
}

func TestHugeErrorsFitIntoAHeader(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{flush: &millstream.Error{Kind: millstream.Conflict, Msg: long, Hint: long, Err: errors.New(long)}}})
	err := c.Flush(t.Context())
	if millstream.KindOf(err) != millstream.Conflict || len(err.Error()) > 10<<10 {
		t.Errorf("kind %d, %d bytes", millstream.KindOf(err), len(err.Error()))
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	c := connect(t, &Server{Log: quietLog(), Intake: &fakeIntake{write: func(context.Context, []*millstream.Batch) (int, error) { panic("secret") }}})
	_, err := c.Write(t.Context(), logs(1, 1))
	if millstream.KindOf(err) != millstream.Internal || millstream.Message(err) != "internal error" || !errors.Is(err, wal.ErrUnknown) {
		t.Errorf("%v: want an internal error of unknown outcome", err)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

// unaware is a context that has not noticed yet that its deadline has passed.
type unaware struct{ context.Context }

func (unaware) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

func TestADeadlineIsTheCallersWhoeverSeesItFirst(t *testing.T) {
	cut := status.Error(codes.DeadlineExceeded, "stream terminated")
	if err := fromStatus(unaware{t.Context()}, "peer", cut); millstream.KindOf(err) != millstream.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: %v", err)
	}
	if err := fromStatus(t.Context(), "peer", cut); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("the call's own deadline: %v", err)
	}
}
