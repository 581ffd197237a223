package segment

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millstream/millstream"
)

var randomWords = []string{"connection", "reset", "by", "peer", "Timeout", "after", "12345ms", "ÉTÉ", "été", "ſtraße", "a_b", "naïve", "x", "K", "K", "日本", "foo\x00bar", "0", "id42"}

func randomText(r *rand.Rand) string {
	switch r.IntN(20) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("long", 20+r.IntN(40)) + " tail"
	}
	n := 1 + r.IntN(7)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString([]string{" ", ", ", "-", ".", ""}[r.IntN(5)])
		}
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, "%d", r.IntN(2000))
		} else {
			b.WriteString(randomWords[r.IntN(len(randomWords))])
		}
	}
	return b.String()
}

// randomBatches makes records with unique times, so that limited scans have one right answer. conflicts lets a field have different types.
func randomBatches(r *rand.Rand, rows int, conflicts bool) []*millstream.Batch {
	var out []*millstream.Batch
	times := r.Perm(rows * 3)
	b := millstream.NewBuilder(millstream.Limits{})
	for i := range rows {
		set := func(name string, f func([]byte)) {
			if r.IntN(5) > 0 {
				f([]byte(name))
			}
		}
		set("addr", func(n []byte) { b.String(n, fmt.Appendf(nil, "10.0.%d.%d", r.IntN(256), r.IntN(256))) })
		set("service", func(n []byte) { b.String(n, []byte([]string{"cart", "checkout", "Auth", ""}[r.IntN(4)])) })
		set("Service", func(n []byte) { b.String(n, []byte("other")) })
		b.String([]byte("message"), []byte(randomText(r)))
		set("trace_id", func(n []byte) { b.String(n, fmt.Appendf(nil, "%032x", r.IntN(rows))) })
		set("status", func(n []byte) { b.Int(n, int64(200+r.IntN(5))) })
		set("big", func(n []byte) { b.Int(n, int64(r.Uint64())) })
		set("ratio", func(n []byte) { b.Double(n, []float64{0, 1.5, -2, math.NaN(), math.Inf(1), float64(i)}[r.IntN(6)]) })
		set("ok", func(n []byte) { b.Bool(n, r.IntN(2) == 0) })
		set("seen", func(n []byte) { b.Time(n, int64(r.IntN(1e9))*1e9) })
		set("text", func(n []byte) { b.String(n, fmt.Appendf(nil, "%d", r.IntN(rows))) })
		if conflicts {
			switch r.IntN(3) {
			case 0:
				b.Int([]byte("mixed"), int64(r.IntN(10)))
			case 1:
				b.Double([]byte("mixed"), float64(r.IntN(10))/2)
			}
			if i > rows/2 {
				set("late", func(n []byte) { b.String(n, []byte("new")) })
			}
		}
		if err := b.Commit(int64(times[i])); err != nil {
			panic(err)
		}
		if r.IntN(1+rows/3) == 0 {
			out = append(out, b.Batch())
		}
	}
	if x := b.Batch(); x != nil {
		out = append(out, x)
	}
	return out
}

func randomValue(r *rand.Rand) Value {
	switch r.IntN(6) {
	case 0:
		return Value{Kind: IntValue, Int: int64(198 + r.IntN(8))}
	case 1:
		return Value{Kind: FloatValue, Float: []float64{1.5, 201.5, 3, math.NaN()}[r.IntN(4)]}
	case 2:
		return Value{Kind: BoolValue, Int: int64(r.IntN(2))}
	case 3:
		return Value{Kind: TimeValue, Int: int64(r.IntN(1e9)) * 1e9}
	}
	return Value{Kind: StringValue, Str: []string{"cart", "Auth", "", "201", "true", "12", fmt.Sprintf("%032x", r.IntN(200)), "1970-01-01", "other"}[r.IntN(9)]}
}

func randomExpr(r *rand.Rand, depth int) Expr {
	field := []string{"service", "Service", "message", "trace_id", "status", "big", "ratio", "ok", "seen", "text", "mixed", "late", "absent", millstream.TimestampField}[r.IntN(14)]
	if depth > 0 {
		switch r.IntN(5) {
		case 0:
			return And{randomExpr(r, depth-1), randomExpr(r, depth-1)}
		case 1:
			return Or{randomExpr(r, depth-1), randomExpr(r, depth-1)}
		case 2:
			return Not{randomExpr(r, depth-1)}
		}
	}
	word := randomWords[r.IntN(len(randomWords))]
	part := randomText(r)
	if len(part) > 3 && r.IntN(2) == 0 {
		part = part[1 : len(part)-1]
	}
	switch r.IntN(9) {
	case 0:
		return IsNull{field}
	case 1:
		return Compare{field, Op(r.IntN(6)), randomValue(r)}
	case 2:
		vs := make([]Value, r.IntN(4))
		for i := range vs {
			vs[i] = randomValue(r)
		}
		return In{field, vs}
	case 3:
		return Like{field, []string{"%" + part + "%", part + "%", "%" + word, "%" + word + "_" + "%", word + "%" + word, "%", "c_rt", `%\%%`}[r.IntN(8)], r.IntN(2) == 0}
	case 4:
		return Contains{[]string{"message", field}[r.IntN(2)], part}
	case 5:
		return Regex{[]string{"message", field}[r.IntN(2)], regexp.MustCompile([]string{`after[ ,.-]*[0-9]{4,}ms`, "(?i)timeout", "^c", regexp.QuoteMeta(word), "(reset|peer).x", `\d+`}[r.IntN(6)])}
	case 6:
		return Match{"", word}
	case 7:
		return Match{[]string{"message", field}[r.IntN(2)], `"` + word + " " + randomWords[r.IntN(len(randomWords))] + `" ` + []string{"", word}[r.IntN(2)]}
	}
	if cut := r.IntN(len(word) + 1); r.IntN(3) == 0 && len([]rune(word)) == len(word) {
		return Match{[]string{"", "message", field}[r.IntN(3)], []string{word[:cut] + "*", "*" + word[cut:], word[:cut] + "*" + word[cut:] + "*"}[r.IntN(3)]}
	}
	return Match{"", strings.ToUpper(word) + " " + []string{"", randomWords[r.IntN(len(randomWords))]}[r.IntN(2)]}
}

// rowText is all of a record, for comparison.
func rowText(b *millstream.Batch, i int) string {
	var parts []string
	for k := range b.Columns {
		if c := &b.Columns[k]; c.IsValid(i) {
			parts = append(parts, fmt.Sprintf("%s=%s:%q", c.Name, c.Type, c.Text(i)))
		}
	}
	sort.Strings(parts)
	return fmt.Sprint(b.Times[i], " ", strings.Join(parts, " "))
}

func scanAll(t testing.TB, s Source, q Scan) []string {
	t.Helper()
	var out []string
	q.All, q.Times = true, true
	stats, err := s.Scan(context.Background(), q, func(b *millstream.Batch) error {
		for i := range b.Times {
			out = append(out, rowText(b, i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Selected != int64(len(out)) {
		t.Fatalf("%d selected, %d emitted", stats.Selected, len(out))
	}
	return out
}

func count(t testing.TB, s Source, q Scan) int64 {
	t.Helper()
	q.CountOnly, q.Limit = true, 0
	stats, err := s.Scan(context.Background(), q, func(*millstream.Batch) error { t.Fatal("emit in a count"); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return stats.Selected
}

func encodeAll(t testing.TB, o Options, batches ...*millstream.Batch) *Reader {
	t.Helper()
	r, _, _ := encodeBytes(t, o, batches...)
	return r
}

func encodeBytes(t testing.TB, o Options, batches ...*millstream.Batch) (*Reader, []byte, []byte) {
	t.Helper()
	var data, index bytes.Buffer
	info, err := Encode(&data, &index, batches, o)
	if err != nil {
		t.Fatal(err)
	}
	if info.DataSize != int64(data.Len()) || info.IndexSize != int64(index.Len()) {
		t.Fatalf("sizes %d, %d; written %d, %d", info.DataSize, info.IndexSize, data.Len(), index.Len())
	}
	r, err := Open(bytesAt(data.Bytes()), info.DataSize, bytesAt(index.Bytes()), info.IndexSize)
	if err != nil {
		t.Fatal(err)
	}
	return r, data.Bytes(), index.Bytes()
}

// mergeAll encodes each batch as a segment of its own and merges them.
func mergeAll(t testing.TB, batches []*millstream.Batch) *Reader {
	t.Helper()
	var in []*Reader
	for _, b := range batches {
		in = append(in, encodeAll(t, Options{}, b))
	}
	r, _ := mergeBytes(t, in)
	return r
}

func mergeBytes(t testing.TB, in []*Reader) (*Reader, []byte) {
	t.Helper()
	var data, index bytes.Buffer
	info, err := Merge(&data, &index, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytesAt(data.Bytes()), info.DataSize, bytesAt(index.Bytes()), info.IndexSize)
	if err != nil {
		t.Fatal(err)
	}
	return r, data.Bytes()
}

func plainBatch(t testing.TB, batches []*millstream.Batch) *millstream.Batch {
	t.Helper()
	all, err := newTable(batches)
	if err != nil {
		t.Fatal(err)
	}
	out := &millstream.Batch{}
	for _, r := range all.refs {
		out.Times = append(out.Times, all.time(r))
	}
	for i := range all.fields {
		var c millstream.Column
		if all.fields[i].gather(&c, all.refs, 0) > 0 {
			out.Columns = append(out.Columns, c)
		}
	}
	return out
}

func TestRandomScans(t *testing.T) {
	for _, rows := range []int{1, 7, 1500, 9000} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%d rows, seed %d", rows, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(rows)))
				batches := randomBatches(r, rows, seed > 0)
				whole := plainBatch(t, batches)
				sources := map[string]Source{"memory": Memory(whole), "segment": encodeAll(t, Options{}, batches...)}
				sources["merged"] = mergeAll(t, batches)
				n := 120
				if rows > 1000 {
					n = 15
				}
				for range n {
					checkScan(t, r, whole, sources)
				}
			})
		}
	}
}

func checkScan(t *testing.T, r *rand.Rand, whole *millstream.Batch, sources map[string]Source) {
	q := Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Filter: randomExpr(r, 3)}
	if r.IntN(3) == 0 {
		q.Range = millstream.TimeRange{Start: int64(r.IntN(len(whole.Times))), End: int64(len(whole.Times)) + int64(r.IntN(len(whole.Times)*2))}
	}
	var want []string
	for i, ns := range whole.Times {
		if q.Range.Contains(ns) && naive(q.Filter, whole, i) == yes {
			want = append(want, rowText(whole, i))
		}
	}
	for name, s := range sources {
		fail := func(what string, got []string) {
			t.Helper()
			t.Fatalf("%s, %s of %#v in %v: %d rows, want %d\n got %.300q\nwant %.300q", name, what, q.Filter, q.Range, len(got), len(want), got, want)
		}
		got := scanAll(t, s, q)
		sort.Slice(got, func(i, j int) bool { return timeOf(got[i]) < timeOf(got[j]) })
		if !slices.Equal(got, want) {
			fail("all", got)
		}
		if n := count(t, s, q); n != int64(len(want)) {
			t.Fatalf("%s, count of %#v: %d, want %d", name, q.Filter, n, len(want))
		}
		limited := q
		limited.Limit = 1 + r.IntN(20)
		n := min(limited.Limit, len(want))
		if got := scanAll(t, s, limited); !slices.Equal(got, want[:n]) {
			fail("oldest", got)
		}
		limited.Newest = true
		got = scanAll(t, s, limited)
		slices.Reverse(got)
		if !slices.Equal(got, want[len(want)-n:]) {
			fail("newest", got)
		}
	}
}

func timeOf(row string) (n int64) {
	head, _, _ := strings.Cut(row, " ")
	n, _ = strconv.ParseInt(head, 10, 64)
	return n
}

func TestRandomTextIsUTF8(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		if s := randomText(r); !utf8.ValidString(s) {
			t.Fatalf("%q", s)
		}
	}
}

// TestSplitSources keeps the records of a stream in sources of their own types. With the stream's types given, together they answer as the whole does.
func TestSplitSources(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	batches := randomBatches(r, 600, true)
	for i := range 40 { // batches of one type each, so that the sources differ
		b := millstream.NewBuilder(millstream.Limits{})
		if i%2 == 0 {
			b.Int([]byte("status"), int64(i))
		} else {
			b.String([]byte("status"), []byte(randomText(r)))
		}
		if err := b.Commit(int64(5000 + i)); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b.Batch())
	}
	whole := plainBatch(t, batches)
	types := map[string]millstream.Type{}
	for i := range whole.Columns {
		types[whole.Columns[i].Name] = whole.Columns[i].Type
	}
	for range 150 {
		q := Scan{Range: always, Filter: randomExpr(r, 2), Types: types}
		var want, memory, segments []string
		for i := range whole.Times {
			if naive(q.Filter, whole, i) == yes {
				want = append(want, rowText(whole, i))
			}
		}
		for _, b := range batches {
			memory = append(memory, scanAll(t, Memory(b), q)...)
			segments = append(segments, scanAll(t, encodeAll(t, Options{}, b), q)...)
		}
		for name, got := range map[string][]string{"memory": memory, "segments": segments} {
			sort.Slice(got, func(i, j int) bool { return timeOf(got[i]) < timeOf(got[j]) })
			if !slices.Equal(got, want) {
				t.Fatalf("%s, %#v: %d rows, want %d\n got %.400q\nwant %.400q", name, q.Filter, len(got), len(want), got, want)
			}
		}
	}
}
