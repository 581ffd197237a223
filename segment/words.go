package segment

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/millstream/millstream"
)

// hasWords is true where the tokens of a phrase stand one after another.
type hasWords struct {
	phrase []string
	lower  []byte // scratch of bulk
}

func (p *hasWords) literals() []literal { return nil }

func (p *hasWords) test(t millstream.Type) *test {
	out := textTest(t, func(v string) bool { return hasPhrase(v, p.phrase) })
	longest := ""
	for _, w := range p.phrase {
		for piece := range strings.SplitSeq(w, "*") {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
	}
	if len(longest) < maxToken && isASCII(longest) {
		out.bulk = func(c *millstream.Column, active, t *bitmap) { p.search(c, longest, active, t) }
	}
	return out
}

// search looks for the longest fixed text of the phrase's words in the lowered text of all rows at once, and decides on the rows that have it. Rows with text beyond ASCII,
// where other letters may fold to the word's, are decided one by one.
func (p *hasWords) search(c *millstream.Column, word string, active, t *bitmap) {
	rows := len(c.Offsets) - 1
	from, to := c.Offsets[0], c.Offsets[rows]
	var ascii bool
	p.lower, ascii = lowerASCII(p.lower[:0], c.Bytes[from:to])
	left := *active
	if !ascii {
		active.each(func(i int) {
			if s := c.Str(i); !isASCII(s) {
				left[i>>6] &^= 1 << (i & 63)
				if hasPhrase(s, p.phrase) {
					t.set(i)
				}
			}
		})
	}
	searchText(p.lower, c.Offsets, word, func(i int) bool {
		row := p.lower[c.Offsets[i]-from : c.Offsets[i+1]-from]
		return hasPhrase(unsafe.String(unsafe.SliceData(row), len(row)), p.phrase)
	}, &left, t)
}

// lowerASCII copies text to dst with ASCII letters lowered and says whether it is all ASCII.
func lowerASCII(dst, text []byte) ([]byte, bool) {
	const high = 0x8080808080808080
	dst = append(dst[:0], text...)
	var seen uint64
	i := 0
	for ; i+8 <= len(dst); i += 8 {
		w := binary.LittleEndian.Uint64(dst[i:])
		seen |= w
		low := w &^ high
		upper := (low + 0x3f3f3f3f3f3f3f3f) &^ (low + 0x2525252525252525) & high &^ w // A to Z: ≥ 0x41 and not ≥ 0x5b
		binary.LittleEndian.PutUint64(dst[i:], w|upper>>2)
	}
	for ; i < len(dst); i++ {
		seen |= uint64(dst[i])
		if c := dst[i]; c >= 'A' && c <= 'Z' {
			dst[i] = c | 0x20
		}
	}
	return dst, seen&high == 0
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
