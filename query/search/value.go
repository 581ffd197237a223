package search

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/segment"
)

// matchQuery writes a text, split at its wildcards, as the query of match_all and match: its words together, in quotes if they are several. A wildcard counts
// where it touches a word; elsewhere it parts the text. It is not ok if there is no word.
func matchQuery(parts []string) (query string, ok bool) {
	var pieces []string
	var piece strings.Builder // grows in place: a text may have tens of thousands of wildcards
	last := cleaner.Replace(parts[0])
	piece.WriteString(last)
	for _, next := range parts[1:] {
		next = cleaner.Replace(next)
		if touches(last, utf8.DecodeLastRuneInString) || touches(next, utf8.DecodeRuneInString) {
			last = "*" + next
		} else {
			pieces = append(pieces, piece.String())
			piece.Reset()
			last = next
		}
		piece.WriteString(last)
	}
	pieces = append(pieces, piece.String())
	var out []string
	for _, p := range pieces {
		switch words := segment.Tokens(nil, p); {
		case len(words) == 0:
		case len(words) == 1 && !strings.Contains(p, "*"):
			out = append(out, strings.TrimFunc(p, separates))
		case len(words) == 1 && len(strings.FieldsFunc(p, func(r rune) bool { return r != '*' && separates(r) })) == 1:
			out = append(out, strings.TrimFunc(p, func(r rune) bool { return r != '*' && separates(r) }))
		default:
			out = append(out, `"`+p+`"`)
		}
	}
	return strings.Join(out, " "), len(out) > 0
}

// cleaner takes from a text what means something in the query of a match function.
var cleaner = strings.NewReplacer(`"`, " ", "*", " ")

func touches(s string, at func(string) (rune, int)) bool {
	r, _ := at(s)
	return s != "" && (r == '*' || !separates(r))
}

// separates says whether a character is not part of a word.
func separates(r rune) bool { return len(segment.Tokens(nil, string(r))) == 0 }

// value compiles field:value, by the field's type.
func (c *compiler) value(f millstream.Field, kind termKind, parts []string, neg bool) expr {
	text := strings.Join(parts, "*")
	switch {
	case len(parts) > 1 && f.Type != millstream.String:
		c.mark(neg, Term{f.Name, text, "wildcard"})
		return onField(f, atom("re_match("+Name(f.Name)+", "+Text(wildcardRegex(parts))+")"), neg)
	case f.Type != millstream.String:
		return c.compare(f, "=", text, neg)
	case IsProse(f.Name):
		query, ok := matchQuery(parts)
		if !ok {
			return c.compare(f, "=", text, neg)
		}
		c.markWords(neg, f.Name, parts)
		return onField(f, atom("match("+Name(f.Name)+", "+Text(query)+")"), neg)
	case len(parts) == 1 && segment.IsID(f.Name):
		return c.compare(f, "=", text, neg)
	}
	markKind := "value"
	if len(parts) > 1 {
		markKind = "wildcard"
	}
	c.mark(neg, Term{f.Name, text, markKind})
	pattern, escape := likePattern(parts)
	if neg {
		return otherwise(f, atom(Name(f.Name)+" NOT ILIKE "+Text(pattern)+escape))
	}
	return atom(Name(f.Name) + " ILIKE " + Text(pattern) + escape)
}

// wildcardRegex is the expression that a whole value with wildcards fits.
func wildcardRegex(parts []string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		quoted[i] = regexp.QuoteMeta(p)
	}
	return `(?is)^` + strings.Join(quoted, ".*") + `$`
}

// likePattern writes a value as a pattern of LIKE. The escape is a character that SQL does not know by itself.
func likePattern(parts []string) (pattern, escape string) {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		quoted[i] = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(p)
		if strings.ContainsAny(p, `%_`) {
			escape = ` ESCAPE '\'`
		}
	}
	if escape == "" {
		return strings.Join(parts, "%"), ""
	}
	return strings.Join(quoted, "%"), escape
}

// opposite operators of a comparison.
var opposite = map[string]string{"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

// compare compiles a comparison with a value as it stands.
func (c *compiler) compare(f millstream.Field, op, text string, neg bool) expr {
	if op == "=" {
		if end, ok := c.day(f, text); ok {
			return c.between(f, bounds{lo: c.time(text), hi: end, hiExcl: true}, neg)
		}
	}
	literal, ok := c.literal(f, op, text)
	if !ok {
		return truth(neg)
	}
	if op == "=" {
		c.mark(neg, Term{f.Name, text, "value"})
	}
	if !neg {
		return atom(Name(f.Name) + " " + op + " " + literal)
	}
	return c.negative(f, atom(Name(f.Name)+" "+opposite[op]+" "+literal), literal)
}

// negative completes the negation of a comparison by the records whose value cannot be compared.
func (c *compiler) negative(f millstream.Field, negation expr, literals ...string) expr {
	out := otherwise(f, negation)
	for _, l := range literals {
		if f.Type == millstream.String && l != "" && l[0] != '\'' {
			return or(out, negate(atom("re_match("+Name(f.Name)+", "+Text(numberText)+")")))
		}
	}
	return out
}

// numberText is the regular expression of the texts that compare as numbers.
const numberText = `(?i)^\s*[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity|nan)\s*$`

// literal writes the value of a comparison by the field's type. One that no value of the type equals is a warning, and not ok.
func (c *compiler) literal(f millstream.Field, op, text string) (sql string, ok bool) {
	switch f.Type {
	case millstream.Int64, millstream.Double:
		if n, ok := number(text); ok {
			return n, true
		}
		c.warn("%q is not a number, as every value of %q is: this finds nothing", text, f.Name)
		return "", false
	case millstream.Bool:
		switch strings.ToLower(text) {
		case "true":
			return "TRUE", true
		case "false":
			return "FALSE", true
		}
		c.warn("%q is neither true nor false, as every value of %q is: this finds nothing", text, f.Name)
		return "", false
	case millstream.Timestamp:
		if t := c.time(text); t != "" {
			return t, true
		}
		c.warn("%q is not a time, as every value of %q is (write 2026-11-30T12:00:00Z or now-15m): this finds nothing", text, f.Name)
		return "", false
	}
	if n, ok := number(text); ok && op != "=" {
		return n, true
	}
	return Text(text), true
}

var numberPattern = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)

// number writes a number as SQL reads it back.
func number(text string) (string, bool) {
	if !numberPattern.MatchString(text) {
		return "", false
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", false
	}
	if f == math.Trunc(f) && math.Abs(f) <= millstream.MaxExactInt {
		return strconv.FormatInt(int64(f), 10), true
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// time writes a time as a literal; empty if the text is none.
func (c *compiler) time(text string) string {
	t, err := timespec.Parse(text, c.now)
	if err != nil || t.Year() < 1678 || t.Year() > 2261 {
		return ""
	}
	return Text(millstream.FormatTime(t.UnixNano()))
}

// day is the start of the day after a date, which as a value stands for the whole day.
func (c *compiler) day(f millstream.Field, text string) (string, bool) {
	t, err := time.Parse(time.DateOnly, text)
	if f.Type != millstream.Timestamp || err != nil || c.time(text) == "" {
		return "", false
	}
	return Text(millstream.FormatTime(t.AddDate(0, 0, 1).UnixNano())), true
}

// bounds are literals; an empty one is open.
type bounds struct {
	lo, hi         string
	loExcl, hiExcl bool
}

// span compiles a range. Of a String field it compares numbers if its ends are numbers, else texts.
func (c *compiler) span(f millstream.Field, t *term, neg bool) expr {
	b := bounds{loExcl: t.lo.excl, hiExcl: t.hi.excl}
	var ok bool
	if f.Type == millstream.String && !(isNumber(t.lo) && isNumber(t.hi)) {
		b.lo, b.hi, ok = openText(t.lo), openText(t.hi), true
	} else if b.lo, ok = c.end(f, t.lo); ok {
		b.hi, ok = c.end(f, t.hi)
	}
	if !ok {
		return truth(neg)
	}
	return c.between(f, b, neg)
}

func isNumber(b bound) bool {
	_, ok := number(b.text)
	return ok || b.open
}

func openText(b bound) string {
	if b.open {
		return ""
	}
	return Text(b.text)
}

func (c *compiler) end(f millstream.Field, b bound) (string, bool) {
	if b.open {
		return "", true
	}
	return c.literal(f, "<", b.text)
}

func (c *compiler) between(f millstream.Field, b bounds, neg bool) expr {
	lower, upper := ">=", "<="
	if b.loExcl {
		lower = ">"
	}
	if b.hiExcl {
		upper = "<"
	}
	if b.lo == "" && b.hi == "" {
		return c.term(&term{field: f.Name, kind: exists}, neg)
	}
	side := func(op, literal string) expr {
		if literal == "" {
			return expr{}
		}
		if neg {
			op = opposite[op]
		}
		return atom(Name(f.Name) + " " + op + " " + literal)
	}
	if neg {
		return c.negative(f, or(side(lower, b.lo), side(upper, b.hi)), b.lo, b.hi)
	}
	return and(side(lower, b.lo), side(upper, b.hi))
}
