package sql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/millstream/millstream/segment"
)

// usage is what the error for a wrong call of a function of ours shows.
var usage = map[string]string{
	"match_all": "match_all('words')",
	"match":     "match(field, 'words')",
	"re_match":  "re_match(field, 'expression')",
	"histogram": "histogram(_timestamp, '1 minute')",
}

func (t *translator) fail(n node, hint, format string, args ...any) (segment.Expr, bool) {
	if t.err == nil {
		t.err = invalid(t.b.stmt.text, nearest(n), hint, format, args...)
	}
	return nil, false
}

// matchCall translates match_all, match and re_match, which only exist as filters of a stream. A wrong call is an error wherever it stands.
func (t *translator) matchCall(n node, name string, args []node) (segment.Expr, bool) {
	t.match = true
	want := 2
	if name == "match_all" {
		want = 1
	}
	if len(args) != want {
		return t.fail(n, "write "+usage[name], "%s takes %d arguments, not %d", name, want, len(args))
	}
	pattern, ok := stringLiteral(args[want-1])
	if !ok {
		return t.fail(args[want-1], "write "+usage[name], "the last argument of %s has to be a text", name)
	}
	if name == "match_all" {
		if v := t.only(n); v != nil && t.about(v) {
			return segment.Match{Query: pattern}, true
		}
		return nil, false
	}
	field, ok := t.matchField(args[0], name)
	if !ok {
		return nil, false
	}
	if name == "match" {
		return segment.Match{Field: field, Query: pattern}, true
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return t.fail(args[1], "the syntax is RE2's", "the expression cannot be read: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return segment.Regex{Field: field, Re: re}, true
}

// only is the one stream of the FROM clause, which match_all searches.
func (t *translator) only(n node) *view {
	var found *view
	for _, r := range t.scope.relations {
		if r.view != nil {
			if found != nil {
				t.fail(n, "use match(t.field, 'words')", "match_all cannot tell which of the streams it has to search")
				return nil
			}
			found = r.view
		}
	}
	if found == nil {
		t.fail(n, "use it where the stream is in the FROM clause", "match_all needs a stream to search")
	}
	return found
}

// matchField reads the field of match and re_match: a column, or its name as a text.
func (t *translator) matchField(n node, name string) (string, bool) {
	parts := strs(n, "column_names")
	if s, ok := stringLiteral(n); ok {
		parts = []string{s}
	} else if text(n, "class") != "COLUMN_REF" {
		t.fail(n, "write "+usage[name], "the first argument of %s has to be a field", name)
		return "", false
	}
	target, ambiguous := t.scope.resolve(parts)
	switch {
	case ambiguous != nil:
		t.fail(n, "write the stream's alias before it", "the name %q is ambiguous", strings.Join(parts, "."))
	case target == nil:
		t.fail(n, t.scope.hint(parts), "there is no field %q", strings.Join(parts, "."))
	case target.column == nil || target.column.view == nil:
		t.fail(n, fmt.Sprintf("use %s where the stream is in the FROM clause", name), "%q is not a field of a stream", strings.Join(parts, "."))
	case t.about(target.column.view):
		return target.column.name, true
	}
	return "", false
}
