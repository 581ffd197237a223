package pattern

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMask(t *testing.T) {
	var m Masker
	for message, want := range map[string]string{
		"": "", "plain words only": "plain words only", "naïve café 12": "naïve café <num>",
		"request 123 took 4.5ms":                            "request <num> took <num>ms",
		"status=200 size=10MB ratio=0.25":                   "status=<num> size=<num>MB ratio=<num>",
		"GET /api/v1/users/42/orders/7 HTTP/1.1":            "GET /api/v<num>/users/<num>/orders/<num> HTTP/<num>",
		"from 10.0.0.17:5432 to fe80::1:2 and ::1":          "from <ip>:<num> to <ip> and ::<num>",
		"2001:db8:0:0:0:0:2:1 said: hi":                     "<ip> said: hi",
		"id 550e8400-e29b-41d4-a716-446655440000 gone":      "id <uuid> gone",
		"at 2026-11-30T12:00:00.123Z and 2026-11-30 1:2":    "at <time> and <num>-<num>-<num> <num>:<num>",
		"at 2026-11-30 12:00:00,5+01:00 / 9:15:00":          "at <time> / <time>",
		"ptr 0x7ffe12 hash deadbeefcafe0123 sha 1f3a9c77":   "ptr <hex> hash <hex> sha <hex>",
		"customer cus_9s6XKzkNRiz8i3 on worker-12 of node3": "customer cus_<id> on worker-<num> of node<num>",
		`user "ann lee" can't use 'x y' or ""`:              `user "<str>" can't use '<str>' or ""`,
		`half "open`:                                        `half "open`,
		"version 1.22.3-beta4 of 3 parts":                   "version <num>-beta<num> of <num> parts",
		"deadbeef facade decade":                            "deadbeef facade decade",
		"first line 1\nsecond line 2":                       "first line <num>…",
		strings.Repeat("g", 999) + "ü":                      strings.Repeat("g", 999) + "…",
		"1764460800000000000 42":                            "<num> <num>",
		"1.2.3.4.5":                                         "<num>",
	} {
		if got := string(m.Mask(message)); got != want {
			t.Errorf("%q:\n got %q\nwant %q", message, got, want)
		}
		if e := Expression(message); !regexp.MustCompile(e).MatchString(message) {
			t.Errorf("%q does not match its own expression %s", message, e)
		}
	}
}

// TestExpressionsTellPatternsApart: an expression matches the messages of its pattern, and none of another.
func TestExpressionsTellPatternsApart(t *testing.T) {
	groups := [][]string{
		{"request 1 took 4.5ms", "request 77 took 12ms"},
		{"GET /users/42", "GET /users/7"},
		{"GET /users/42/orders", "GET /users/9/orders"},
		{`no user "ann"`, `no user "bob smith"`},
		{"peer 10.0.0.1 gone", "peer fe80::2 gone"},
		{"at 12:00:01 done", "at 2026-11-30T12:00:01Z done"},
		{"object 0xff", "object a1b2c3d4e5"},
	}
	var m Masker
	for i, g := range groups {
		if a, b := string(m.Mask(g[0])), string(m.Mask(g[1])); a != b {
			t.Errorf("%q and %q are of one pattern: %q, %q", g[0], g[1], a, b)
		}
		for _, sample := range g {
			x := regexp.MustCompile(Expression(sample))
			for j, other := range groups {
				for _, message := range other {
					if x.MatchString(message) != (i == j) {
						t.Errorf("the expression of %q and %q: %s", sample, message, x)
					}
				}
			}
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("a 1 b", "a 2 b")
	f.Add(`x="1" 0x1f ::1 1.2.3.4`, "12:00:00Z")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		var m, o Masker
		same := string(m.Mask(a)) == string(o.Mask(b))
		x, err := regexp.Compile(Expression(a))
		if err != nil {
			t.Fatal(err)
		}
		if !x.MatchString(a) {
			t.Errorf("%q does not match its own expression %s", a, x)
		}
		if same && !strings.Contains(a+b, "<") && !strings.Contains(a+b, "…") && !x.MatchString(b) {
			t.Errorf("%q and %q have one pattern, but %s does not match the second", a, b, x)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	var m Masker
	const s = `GET /api/v1/users/550e8400-e29b-41d4-a716-446655440000/orders/77 from 10.1.2.3:443 took 12.5ms status=200 agent="curl/8.1"`
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		m.Mask(s)
	}
}
