package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

const nameLabel = "__name__"

// matchers is a query's matchers made ready: those of the metric name, which are tested once per name, and the rest, sorted by label.
type matchers struct {
	names   []*labels.Matcher
	rest    []*labels.Matcher
	nameIs  string // the name that is asked for, if hasName
	hasName bool
}

func compile(q Query) matchers {
	out := matchers{}
	for _, m := range q.Matchers {
		if m.Name != nameLabel {
			out.rest = append(out.rest, m)
			continue
		}
		out.names = append(out.names, m)
		if m.Type == labels.MatchEqual && !out.hasName {
			out.nameIs, out.hasName = m.Value, true
		}
	}
	slices.SortStableFunc(out.rest, func(a, b *labels.Matcher) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// name says whether a metric name matches.
func (m *matchers) name(name string) bool {
	for _, x := range m.names {
		if !x.Matches(name) {
			return false
		}
	}
	return true
}

// key says whether the labels of a canonical label set match, the name aside. Both are sorted, so one walk over the labels serves all matchers.
func (m *matchers) key(key string) bool {
	rest := m.rest
	for len(rest) > 0 && key != "" {
		name, value, tail, ok := cutLabel(key)
		if !ok {
			return false
		}
		for len(rest) > 0 && rest[0].Name < name {
			if !rest[0].Matches("") {
				return false
			}
			rest = rest[1:]
		}
		for len(rest) > 0 && rest[0].Name == name {
			if !rest[0].Matches(value) {
				return false
			}
			rest = rest[1:]
		}
		key = tail
	}
	for _, x := range rest {
		if !x.Matches("") {
			return false
		}
	}
	return true
}

// cutLabel splits the first label off a canonical label set.
func cutLabel(key string) (name, value, rest string, ok bool) {
	if name, rest, ok = cutString(key); !ok {
		return "", "", "", false
	}
	value, rest, ok = cutString(rest)
	return name, value, rest, ok
}

func cutString(s string) (head, rest string, ok bool) {
	n, at := uint64(0), 0
	for shift := 0; ; shift += 7 {
		if at == len(s) || shift > 56 {
			return "", "", false
		}
		b := s[at]
		at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	if n > uint64(len(s)-at) {
		return "", "", false
	}
	return s[at : at+int(n)], s[at+int(n):], true
}
