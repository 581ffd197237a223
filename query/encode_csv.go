package query

import (
	"strings"

	"github.com/millstream/millstream"
)

// csvEncoder writes RFC 4180 with a header line. A null is an empty cell, an empty text is "". A text that a spreadsheet would take for a formula gets a
// leading apostrophe; numbers do not. What the other formats say beside the rows has no place here.
type csvEncoder struct {
	*output
}

func (e *csvEncoder) Columns(cs []Column) error {
	for i, c := range cs {
		e.cell(i, c.Name)
	}
	e.buf = append(e.buf, "\r\n"...)
	return nil
}

func (e *csvEncoder) Rows(r *Rows) error {
	for i := range r.N {
		for j := range r.Columns {
			c := &r.Columns[j]
			switch {
			case !c.IsValid(i):
				e.comma(j)
			case c.Type == millstream.String:
				e.cell(j, c.Str(i))
			default:
				e.comma(j)
				e.buf = appendText(e.buf, c, i)
			}
		}
		e.buf = append(e.buf, "\r\n"...)
		if err := e.spill(); err != nil {
			return err
		}
	}
	return nil
}

func (e *csvEncoder) comma(i int) {
	if i > 0 {
		e.buf = append(e.buf, ',')
	}
}

// cell appends a text.
func (e *csvEncoder) cell(i int, s string) {
	e.comma(i)
	formula := s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 && !isNumber(s)
	if s != "" && !formula && !strings.ContainsAny(s, "\",\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		e.buf = append(e.buf, s...)
		return
	}
	e.buf = append(e.buf, '"')
	if formula {
		e.buf = append(e.buf, '\'')
	}
	e.buf = append(e.buf, strings.ReplaceAll(s, `"`, `""`)...)
	e.buf = append(e.buf, '"')
}

// isNumber says whether s is a plain decimal number, which no spreadsheet takes for a formula.
func isNumber(s string) bool {
	digits, dots := 0, 0
	for i, r := range []byte(s) {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '.':
			dots++
		case i == 0 && r == '-':
		default:
			return false
		}
	}
	return digits > 0 && dots <= 1
}

func (e *csvEncoder) Close(*Answer) error { return e.flush() }

func (e *csvEncoder) Fail(any) bool { return false }
