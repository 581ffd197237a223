package search

import (
	"fmt"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/spelling"
	"github.com/millstream/millstream/segment"
)

// maxHints is how many unknown names of a search get a hint: each is compared with every field.
const maxHints = 5

// maxIDFields is how many id fields a bare identifier is looked up in.
const maxIDFields = 16

// proseNames are the last parts of the names of fields that hold sentences, in which field:value looks for words.
var proseNames = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`message msg body log text line content description summary detail details reason exception stack stacktrace traceback error err
		warning statement query sql command cmd args output stdout stderr raw original comment title subject note notes useragent agent`) {
		proseNames[name] = true
	}
}

// IsProse says by the name of a field whether field:value looks for words in it; of any other String field it is the whole value, in any case. Going by the name
// and not by the values, an answer does not depend on which records happen to be stored together.
func IsProse(name string) bool {
	last := name[strings.LastIndexAny(name, "._-/")+1:]
	return proseNames[strings.ToLower(last)]
}

// fields finds the fields of a stream by name.
type fields struct {
	list   []millstream.Field
	exact  map[string]int
	folded map[string][2]int // the first two of a name in lower case; made when a name is not found as it is. -1: no second one
	hints  int
	idents []millstream.Field // see ids; nil until they are asked for
}

func newFields(list []millstream.Field) *fields {
	f := &fields{list: withTime(list)}
	f.exact = make(map[string]int, len(f.list))
	for i := len(f.list) - 1; i >= 0; i-- { // the first, which is _timestamp itself, wins
		f.exact[f.list[i].Name] = i
	}
	return f
}

// withTime adds the field that every stream has.
func withTime(list []millstream.Field) []millstream.Field {
	out := make([]millstream.Field, 1, 1+len(list))
	out[0] = millstream.Field{Name: millstream.TimestampField, Type: millstream.Timestamp}
	return append(out, list...)
}

func (f *fields) fold() {
	f.folded = make(map[string][2]int, len(f.exact))
	for i := range f.list {
		if f.exact[f.list[i].Name] != i {
			continue
		}
		low := strings.ToLower(f.list[i].Name)
		if both, ok := f.folded[low]; !ok {
			f.folded[low] = [2]int{i, -1}
		} else if both[1] < 0 {
			f.folded[low] = [2]int{both[0], i}
		}
	}
}

// find resolves a name as SQL does here: exactly, else without case where that is unambiguous. warning says why there is none.
func (f *fields) find(name string) (field millstream.Field, warning string) {
	if i, ok := f.exact[name]; ok {
		return f.list[i], ""
	}
	if f.folded == nil {
		f.fold()
	}
	if both, ok := f.folded[strings.ToLower(name)]; ok {
		if both[1] < 0 {
			return f.list[both[0]], ""
		}
		return field, fmt.Sprintf("the field %q could be %q or %q: write it in its exact case", name, f.list[both[0]].Name, f.list[both[1]].Name)
	}
	warning = fmt.Sprintf("there is no field %q", name)
	if f.hints++; f.hints <= maxHints {
		names := make([]string, len(f.list))
		for i := range f.list {
			names[i] = f.list[i].Name
		}
		if hint := spelling.Hint(name, names); hint != "" {
			return field, warning + ": " + hint
		}
	}
	return field, warning + ": to search for the text, put it in quotes"
}

// ids are the fields that hold identifiers of single events, which the words of a search do not reach. They are looked for once: a search may have thousands of
// words, a stream tens of thousands of fields.
func (f *fields) ids() []millstream.Field {
	if f.idents != nil {
		return f.idents
	}
	f.idents = make([]millstream.Field, 0, maxIDFields)
	for _, x := range f.list {
		if len(f.idents) == maxIDFields {
			break
		}
		if x.Type == millstream.String && segment.IsID(x.Name) {
			f.idents = append(f.idents, x)
		}
	}
	return f.idents
}

// looksLikeID says whether a word may be the identifier of an event: long, of hexadecimal digits and dashes, with a digit.
func looksLikeID(s string) bool {
	digit := false
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F', c == '-':
		default:
			return false
		}
	}
	return digit && len(s) >= 16
}
