package query

import (
	"errors"
	"fmt"

	"github.com/millstream/millstream"
)

// errEnough ends a run whose answer has as many rows as it may have.
var errEnough = errors.New("enough rows")

// maxAnswerBytes is the size of an answer's values in memory after which it is cut, whatever its number of rows: a row may hold a text of a megabyte.
const maxAnswerBytes = 256 << 20

// limited passes an answer on up to a number of rows and bytes. More is cut off; if it was not the request itself that asked for no more, the answer says so.
type limited struct {
	q       *task
	sink    Sink
	max     int
	asked   bool // the request itself asked for no more
	rows    int
	bytes   int
	started bool
}

func newLimited(q *task, sink Sink, max int) *limited {
	l := &limited{q: q, sink: sink, max: max}
	if q.Limit > 0 && q.Limit <= max {
		l.max, l.asked = q.Limit, true
	}
	return l
}

// most is how many rows are worth making: one more than may be shown, so that it is known whether there are more.
func (l *limited) most() int {
	if l.asked {
		return l.max
	}
	return l.max + 1
}

// Columns passes the columns on once.
func (l *limited) Columns(cs []Column) error {
	if l.started {
		return nil
	}
	l.started, l.q.emitted = true, true
	return l.sink.Columns(cs)
}

func (l *limited) Rows(r *Rows) error {
	if left := l.max - l.rows; r.N > left {
		if !l.asked {
			l.q.warn(fmt.Sprintf("the answer was cut at %d rows: add a LIMIT or an aggregate, or narrow the time range", l.max))
		}
		if left > 0 {
			cut(r, left)
			l.rows = l.max
			if err := l.sink.Rows(r); err != nil {
				return err
			}
		}
		return errEnough
	}
	if l.bytes > maxAnswerBytes {
		l.tooLarge()
		return errEnough
	}
	l.rows += r.N
	l.bytes += r.Size()
	return l.sink.Rows(r)
}

// tooLarge says that the answer ends here because of its bytes.
func (l *limited) tooLarge() {
	l.q.warn(fmt.Sprintf("the answer was cut at %d rows, where it was larger than %d MiB: select fewer fields, or filter more", l.rows, maxAnswerBytes>>20))
}

// cut shortens a block to n rows.
func cut(r *Rows, n int) {
	r.N = n
	for i := range r.Columns {
		c := &r.Columns[i]
		switch {
		case c.Codes != nil:
			c.Codes = c.Codes[:n]
		case c.Type == millstream.String:
			c.Offsets = c.Offsets[:n+1]
		case c.Type == millstream.Double:
			c.Floats = c.Floats[:n]
		default:
			c.Ints = c.Ints[:n]
		}
	}
}
