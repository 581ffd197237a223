package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

// counting counts what an answer's reader gets.
type counting struct{ rows, bytes int }

func (c *counting) Columns([]Column) error { return nil }
func (c *counting) Rows(r *Rows) error {
	c.rows += r.N
	c.bytes += r.Size()
	return nil
}

func TestAnswersAreCutByBytes(t *testing.T) {
	for name, block := range map[string]func() *Rows{
		"plain": func() *Rows {
			return &Rows{N: 2, Columns: []millstream.Column{{Type: millstream.String, Offsets: []uint32{0, 1 << 20, 2 << 20}, Bytes: make([]byte, 2<<20)}}}
		},
		"coded": func() *Rows {
			return &Rows{N: 2, Columns: []millstream.Column{{Type: millstream.String, Codes: []uint32{0, 0}, Dict: []string{strings.Repeat("x", 1<<20)}}}}
		},
	} {
		q, out := &task{}, &counting{}
		l := newLimited(q, out, 100_000)
		var err error
		for n := 0; err == nil && n < 1000; n++ {
			err = l.Rows(block())
		}
		if !errors.Is(err, errEnough) || out.bytes > maxAnswerBytes+2<<20 || out.rows < maxAnswerBytes>>20 {
			t.Errorf("%s: %v after %d rows of %d bytes", name, err, out.rows, out.bytes)
		}
		if len(q.answer.Warnings) != 1 || !strings.Contains(q.answer.Warnings[0], "256 MiB") {
			t.Errorf("%s: warnings %q", name, q.answer.Warnings)
		}
	}
}
