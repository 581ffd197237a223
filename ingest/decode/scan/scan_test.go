package scan

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestValueAgrees compares what is valid with encoding/json over documents that are damaged in every place.
func TestValueAgrees(t *testing.T) {
	for _, doc := range []string{
		`{"a":[1,-2.5e+3,{"b":"\u00e9\n"},[],{}],"c":null,"d":true,"e":false}`, ` [ "x" , 0 , -0.0 , 1E9 , [ [ ] ] ] `, `"a string of more than eight bytes, \"quoted\" \\ \/"`,
	} {
		for i := range doc {
			for _, c := range []string{"", "x", `"`, "0", ",", "]", "}", "{", "\\", " ", "\n", "\x01", "-", ":"} {
				damaged := doc[:i] + c + doc[i+1:]
				s := JSON{Data: []byte(damaged)}
				end := s.Value(s.Space(0))
				if got := end >= 0 && s.Space(end) == len(damaged); got != json.Valid([]byte(damaged)) {
					t.Fatalf("%q: valid %v, want %v", damaged, got, !got)
				}
				if end < 0 {
					if at, msg := s.Failure(); at < 0 || at > len(damaged) || msg == "" {
						t.Errorf("%q: failure %q at %d", damaged, msg, at)
					}
				}
			}
		}
	}
}

func TestValueNesting(t *testing.T) {
	for depth, ok := range map[int]bool{1: true, maxNesting: true, maxNesting + 1: false, 1_000_000: false} {
		s := JSON{Data: []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))}
		if end := s.Value(0); (end == 2*depth) != ok {
			t.Errorf("depth %d: %d", depth, end)
		} else if ok && s.deepest != depth {
			t.Errorf("depth %d: deepest %d", depth, s.deepest)
		}
	}
}

// TestNumbers compares with strconv, whose result is the correctly rounded one.
func TestNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	literals := []string{"0", "-0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "0.1", "1e22", "1e23",
		"123456789012345678901234567890", "0.000000000000000000000000000001", "1e400", "-1e400", "1e-400", "9007199254740993", "9007199254740993.0", "00000", "1.7976931348623157e308", "5e-324",
		"0." + strings.Repeat("0", 400) + "1e400", strings.Repeat("9", 400) + "e-399"}
	for range 200_000 {
		f := math.Float64frombits(rnd.Uint64())
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			literals = append(literals, strconv.FormatFloat(f, "gef"[rnd.IntN(2)], rnd.IntN(20)-1, 64))
		}
		literals = append(literals, strconv.FormatInt(rnd.Int64()>>rnd.IntN(64), 10), strconv.FormatFloat(rnd.Float64()*1000, 'f', rnd.IntN(8), 64))
	}
	for _, lit := range literals {
		s, n := JSON{Data: []byte(lit)}, number{}
		if end := s.number(0, &n); end != len(lit) {
			if lit != "00000" || end != 1 {
				t.Fatalf("%s was read to %d", lit, end)
			}
			continue
		}
		want, err := strconv.ParseInt(lit, 10, 64)
		if got, ok := n.int64(); ok != (err == nil) || ok && got != want {
			t.Fatalf("%s = %d %v, want %d %v", lit, got, ok, want, err)
		}
		if err == nil || n.integer {
			continue
		}
		wantF, err := strconv.ParseFloat(lit, 64)
		if got, ok := n.double(s.Data); ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(wantF) {
			t.Fatalf("%s = %v %v, want %v %v", lit, got, ok, wantF, err)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `"plain"`: "plain", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u0041\u00e9\uD83D\uDE00"`: "Aé😀", `"\ud83d"`: "\ufffd", `"\ude00\ud83d"`: "\ufffd\ufffd",
		`"\ud83d\ud83d\ude00"`: "\ufffd😀", `"é\n"`: "é\n", "\"a\xffb\xe2\x82\\n\"": "a\ufffdb\ufffd\ufffd\n", `"\\u0041"`: `\u0041`, "\"\x7f\"": "\x7f",
	} {
		s := JSON{Data: []byte(in)}
		if got, end := s.Text(0); string(got) != want || end != len(in) {
			t.Errorf("%s = %q to %d, want %q", in, got, end, want)
		}
		var std string
		if err := json.Unmarshal([]byte(in), &std); err != nil || std != want {
			t.Errorf("%s: encoding/json says %q %v", in, std, err)
		}
	}
}

func TestObjectAndArray(t *testing.T) {
	s := JSON{Data: []byte(` { "a" : [ 1 , 2 ] , "b" : { } } `)}
	var keys []string
	elements := 0
	end := s.Object(1, func(key []byte, i int) int {
		keys = append(keys, string(key))
		if s.Data[i] == '[' {
			return s.Array(i, func(i int) int {
				elements++
				return s.Scalar(i)
			})
		}
		return s.Object(i, nil)
	})
	if end != len(s.Data)-1 || strings.Join(keys, " ") != "a b" || elements != 2 {
		t.Errorf("to %d, keys %q, %d elements", end, keys, elements)
	}
	for _, bad := range []string{``, `[`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{1:1}`, `{"a" 1}`, `{"a":1 "b":2}`} {
		s := JSON{Data: []byte(bad)}
		if end := s.Object(0, func(_ []byte, i int) int { return s.Value(i) }); end >= 0 {
			t.Errorf("%s was accepted to %d", bad, end)
		}
	}
	for _, bad := range []string{``, `{`, `[`, `[1`, `[1,`, `[1,]`, `[,]`, `[1 2]`} {
		s := JSON{Data: []byte(bad)}
		if end := s.Array(0, s.Value); end >= 0 {
			t.Errorf("%s was accepted to %d", bad, end)
		}
	}
}

func BenchmarkString(b *testing.B) {
	for name, text := range map[string]string{"short": "info", "id": "66d2a7b8-b265-7976-9c3d-79029e033925", "message": strings.Repeat("job completed: processed 339382 items ", 5)} {
		b.Run(name, func(b *testing.B) {
			s := JSON{Data: []byte(`"` + text + `","next":"value"`)}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.str(1)
			}
		})
	}
}
