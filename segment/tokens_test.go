package segment

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	long := strings.Repeat("a", 200)
	for text, want := range map[string][]string{
		"":                             nil,
		" .-":                          nil,
		"GET /api/v1?q=a_b":            {"get", "api", "v1", "q", "a_b"},
		"Connection-reset.by PEER":     {"connection", "reset", "by", "peer"},
		"ÉTÉ straße ΣΊΣΥΦΟΣ ſ K":       {"été", "straße", "σίσυφοσ", "s", "k"},
		"日本語 テスト":                      {"日本語", "テスト"},
		"a\xffb\x00c":                  {"a", "b", "c"},
		"e\u0301cole":                  {"e\u0301cole"},
		long + " x":                    {long[:maxToken], "x"},
		strings.Repeat("é", 100) + "!": {strings.Repeat("é", 63) + "\x00\x00"},
	} {
		if got := Tokens(nil, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestIsID(t *testing.T) {
	for name, want := range map[string]bool{
		"trace_id": true, "traceId": true, "TraceID": true, "span_id": true, "parent_span_id": true, "http.request-id": true, "uuid": true, "x.correlation_id": true,
		"user_id": false, "id": false, "message": false, "": false, "grid": false, "order_id": false,
	} {
		if IsID(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestParseMatch(t *testing.T) {
	for query, want := range map[string]words{
		"":                          nil,
		"Foo bar-baz":               {{"foo"}, {"bar"}, {"baz"}},
		`a "b C" d "" "e"`:          {{"a"}, {"b", "c"}, {"d"}, {"e"}},
		"time* *out x*y a**b *":     {{"time*"}, {"*out"}, {"x*y"}, {"a*b"}},
		`"web-fro* * b*" a* *c`:     {{"web", "fro*", "b*"}, {"a*"}, {"*c"}},
		"**":                        nil,
		`open "never closed at all`: {{"open"}, {"never", "closed", "at", "all"}},
	} {
		if got := parseMatch(query); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		fold, want    bool
	}{
		{"abc", "abc", false, true}, {"abc", "abcd", false, false}, {"", "", false, true}, {"", "a", false, false}, {"%", "", false, true},
		{"a%", "abc", false, true}, {"%c", "abc", false, true}, {"%b%", "abc", false, true}, {"a_c", "aéc", false, true}, {"a_c", "ac", false, false},
		{`100\%`, "100%", false, true}, {`100\%`, "1000", false, false}, {`a\\b`, `a\b`, false, true}, {"A%É", "a é", true, true}, {"A%", "abc", false, false},
		{"%ab%ab%", "abab", false, true}, {"%ab%ab", "ab", false, false}, {"a%a", "a", false, false}, {"%_%", "", false, false}, {"__%", "a", false, false},
		{"%a_%_b%", "xa12by", false, true},
	} {
		p := parseLike(c.pattern, c.fold)
		if p.match(c.text) != c.want {
			t.Errorf("%q LIKE %q (fold %v): %v", c.text, c.pattern, c.fold, !c.want)
		}
	}
}

// TestLiterals checks which whole tokens and which fragment a predicate demands.
func TestLiterals(t *testing.T) {
	regex := func(s string) predicate { return newRegex(regexp.MustCompile(s)) }
	pattern := func(s string) predicate { return &like{parseLike(s, false)} }
	for _, c := range []struct {
		name  string
		pred  predicate
		words string
	}{
		{"contains", contains{"connection reset by peer"}, "reset by | connection"},
		{"contains a word", contains{"timeout"}, " | timeout"},
		{"not UTF-8", contains{"\xa9 abc def"}, " | "},
		{"equal", compare{Eq, Value{Kind: StringValue, Str: "GET /x"}}, "get x | get"},
		{"number", compare{Eq, Value{Kind: IntValue, Int: 5}}, ""},
		{"prefix", pattern("GET /api%"), "get | get"},
		{"suffix", pattern("%io timeout"), "timeout | timeout"},
		{"wild", pattern("_ab cd_ef gh"), " | ab; gh | ef"},
		{"regex", regex(`timeout after [0-9]{4,}ms`), "after | timeout;  | ms"},
		{"regex, optional", regex(`(abc def )?x yy z`), "yy | yy"},
		{"regex, either", regex(`a b c|d e f`), ""},
	} {
		var got []string
		for _, l := range c.pred.literals() {
			got = append(got, fmt.Sprintf("%s | %s", strings.Join(l.wholeTokens(nil), " "), l.fragment()))
		}
		if s := strings.Join(got, "; "); s != c.words {
			t.Errorf("%s: %q, want %q", c.name, s, c.words)
		}
	}
}

func TestLowerASCII(t *testing.T) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	got, ascii := lowerASCII(nil, all)
	for i, c := range got {
		want := byte(i)
		if want >= 'A' && want <= 'Z' {
			want |= 0x20
		}
		if c != want {
			t.Errorf("%d gives %d", i, c)
		}
	}
	if ascii {
		t.Error("said to be ASCII")
	}
	if _, ascii := lowerASCII(nil, all[:128]); !ascii {
		t.Error("said not to be ASCII")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("Connection reset, by PEER é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, token := range Tokens(nil, s) {
			if token == "" || len(token) > maxToken {
				t.Fatalf("token %q", token)
			}
			if strings.TrimRight(token, "\x00") == token {
				if again := Tokens(nil, token); len(again) != 1 || again[0] != token {
					t.Fatalf("%q gives %q", token, again)
				}
			}
		}
	})
}
