package query

import (
	"unicode/utf8"

	"github.com/millstream/millstream"
)

// FrameRows writes rows as JSON arrays for a client that shows an answer while it comes. Long texts can be cut: the client asks for a whole one when it is
// looked at.
type FrameRows struct {
	classes []class
	most    int // bytes of a text; 0: any
}

// Cut is a value that was cut: its row and column in the frame, and its size in bytes.
type Cut [3]int

// NewFrameRows makes a writer of rows with the given columns; texts of more than most bytes are cut, none if most is 0.
func NewFrameRows(cs []Column, most int) *FrameRows { return &FrameRows{classes(cs), most} }

// Append appends row i as a JSON array and adds what it cut. at is the row's number in its frame.
func (f *FrameRows) Append(dst []byte, cuts []Cut, r *Rows, i, at int) ([]byte, []Cut) {
	dst = append(dst, '[')
	for j := range r.Columns {
		if j > 0 {
			dst = append(dst, ',')
		}
		c := &r.Columns[j]
		if f.most > 0 && c.Type == millstream.String && c.IsValid(i) {
			if s := c.Str(i); len(s) > f.most {
				dst = millstream.AppendJSONString(dst, head(s, f.most))
				cuts = append(cuts, Cut{at, j, len(s)})
				continue
			}
		}
		dst = appendJSON(dst, c, i, f.classes[j])
	}
	return append(dst, ']'), cuts
}

// head is up to n bytes of a text, a few less where a character would be cut in two.
func head(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n]
}
