package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

var (
	_ leaves = (*query.Engine)(nil)
	_ leaves = (*Client)(nil)
)

// fakeLeaves sends what the test says and keeps what it was asked.
type fakeLeaves struct {
	ask    []byte
	frames [][]byte
	err    error
	ended  chan error // if set, the call goes on until its context ends
}

func (f *fakeLeaves) Leaf(ctx context.Context, ask []byte, emit func([]byte) error) error {
	f.ask = bytes.Clone(ask)
	shared := make([]byte, 0, 1<<20) // a frame is valid during the call only
	for _, b := range f.frames {
		shared = append(shared[:0], b...)
		if err := emit(shared); err != nil {
			return err
		}
	}
	if f.ended != nil {
		<-ctx.Done()
		f.ended <- ctx.Err()
	}
	return f.err
}

func TestLeafFramesArriveAsTheyAre(t *testing.T) {
	f := &fakeLeaves{frames: [][]byte{[]byte("p"), bytes.Repeat([]byte("b"), 3<<20), {}, []byte("done")}}
	c := connect(t, &Server{Leaves: f})
	var got [][]byte
	if err := c.Leaf(t.Context(), []byte("what is asked"), func(b []byte) error { got = append(got, bytes.Clone(b)); return nil }); err != nil {
		t.Fatal(err)
	}
	if string(f.ask) != "what is asked" {
		t.Errorf("asked %q", f.ask)
	}
	if !slices.EqualFunc(got, f.frames, bytes.Equal) {
		t.Errorf("%d frames arrived changed", len(got))
	}
}

func TestLeafErrors(t *testing.T) {
	t.Run("of the leaf", func(t *testing.T) {
		c := connect(t, &Server{Leaves: &fakeLeaves{err: fmt.Errorf("gone: %w", millstream.Errorf(millstream.NotFound, "no object"))}})
		err := c.Leaf(t.Context(), nil, func([]byte) error { return nil })
		if millstream.KindOf(err) != millstream.NotFound {
			t.Fatalf("error %v of kind %d, want not found", err, millstream.KindOf(err))
		}
	})
	t.Run("of the reader", func(t *testing.T) {
		f := &fakeLeaves{frames: [][]byte{[]byte("p")}, ended: make(chan error, 1)}
		c := connect(t, &Server{Leaves: f})
		enough := errors.New("enough")
		if err := c.Leaf(t.Context(), nil, func([]byte) error { return enough }); !errors.Is(err, enough) {
			t.Fatalf("error %v, want the reader's", err)
		}
		if err := <-f.ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("the leaf ended with %v", err)
		}
	})
	t.Run("no querier", func(t *testing.T) {
		err := connect(t, &Server{}).Leaf(t.Context(), nil, func([]byte) error { return nil })
		if millstream.KindOf(err) != millstream.Unavailable {
			t.Fatalf("error %v, want unavailable", err)
		}
	})
}
