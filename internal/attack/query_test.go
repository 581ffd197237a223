package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// What the sandbox refuses; a $ is where the error has to be.
func attackSQL(t *testing.T, a *target) {
	a.send(t, "app", `{"level":"error","message":"connection reset","n":1}`, `{"level":"info","message":"ok","n":2}`)
	file := filepath.Join(a.Dir, "stolen")
	for _, s := range []string{
		"$COPY app TO '" + file + "'", "$COPY (SELECT 1) TO '" + file + "'", "$ATTACH '" + file + "'", "$ATTACH 'postgres://' AS p (TYPE postgres)", "$INSTALL httpfs", "$LOAD httpfs", "$SET memory_limit = '100GB'", "$RESET memory_limit",
		"$PRAGMA version", "$CALL pragma_version()", "$CREATE TABLE x (a INT)", "$INSERT INTO app VALUES (1)", "$UPDATE app SET n = 1", "$DELETE FROM app", "$DROP TABLE app", "$EXPLAIN SELECT 1", "$CREATE SECRET s (TYPE s3)",
		"$CREATE MACRO f(a) AS a", "$EXPORT DATABASE '" + file + "'", "$IMPORT DATABASE '" + file + "'", "$USE memory", "$CHECKPOINT", "$PREPARE x AS SELECT 1", "$BEGIN", "$VACUUM",
		"SELECT $getenv('HOME')", "SELECT $current_setting('memory_limit')", "SELECT $version()", "SELECT $query('SELECT 1')", "SELECT $json_execute_serialized_sql('x')", "SELECT $nextval('x')", "SELECT $sleep_ms(100000)", "SELECT $write_log('x')",
		"SELECT * FROM $duckdb_settings()", "SELECT * FROM $duckdb_secrets()", "SELECT * FROM $read_csv('/etc/passwd')", "SELECT * FROM $read_text('/etc/passwd')", "SELECT * FROM $read_blob('/proc/self/environ')", "SELECT * FROM $glob('/*')",
		"SELECT * FROM $read_parquet('s3://x/y')", "SELECT * FROM $sniff_csv('/etc/passwd')", "SELECT * FROM $query_table('app')", "SELECT * FROM $duckdb_tables()", "SELECT * FROM $pragma_table_info('app')", "SELECT * FROM $which_secret('a', 'b')",
		"SELECT * FROM $arrow_scan(0, 0, 0)", "SELECT * FROM $seq_scan('app')", "SELECT * FROM app WHERE n IN (SELECT n FROM $read_csv('/etc/passwd'))", "WITH c AS (SELECT * FROM $glob('/*')) SELECT * FROM c",
		"SELECT (SELECT $getenv('HOME'))", "SELECT * FROM app ORDER BY $getenv('HOME')", "SELECT count(*) FILTER (WHERE $getenv('HOME') = '') FROM app",
		"SELECT $lev FROM app", "SELECT level FROM app WHERE $nosuch = 1", "SELECT 'unclosed", "SELECT $nosuch(1)", "SELECT * FROM app WHERE re_match(message, $'(')", "SELECT $match_all('x')",
	} {
		at := strings.Index(s, "$")
		statement := strings.Replace(s, "$", "", 1)
		r, _ := a.ask(t, statement)
		r.check(t, statement, 400)
		r.own(t, statement, "invalid_argument")
		if at >= 0 && !strings.Contains(r.body, fmt.Sprintf(`"position":%d,`, at+1)) {
			t.Errorf("%s: %v, want the position %d", statement, r, at+1)
		}
	}
	for _, s := range []string{"SELECT 1; SELECT 2", ";", "SELECT 1;;SELECT 2", "SELECT 1; COPY app TO '" + file + "'"} {
		r, _ := a.ask(t, s)
		r.check(t, s, 400, "statement")
	}
	for _, name := range []string{"'/etc/passwd'", `"/etc/passwd"`, "'http://127.0.0.1:1/x.parquet'", "information_schema.tables", "pg_catalog.pg_tables", "sqlite_master", "main.app", "memory.main.app", "system.main.duckdb_settings", "temp.main.app", "traces.app", "metrics.app", "nosuch"} {
		r, _ := a.ask(t, "SELECT * FROM "+name)
		r.check(t, name, 404, `"position":15`)
		r.own(t, name, "not_found")
	}
	for statement, hint := range map[string]string{"SELECT * FROM appp": "app", "SELECT levl FROM app": "level", "SELECT cuont(*) FROM app": "count"} {
		if r, _ := a.ask(t, statement); !strings.Contains(r.body, `did you mean \"`+hint) {
			t.Errorf("%s: %v has no hint at %s", statement, r, hint)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a statement wrote a file")
	}
	a.rows(t, "SELECT level, n FROM app ORDER BY n", "[[error 1] [info 2]]")
}

// Short statements that stand for much. None may end the node, or take longer than the limits allow.
func attackSQLBombs(t *testing.T, a *target) {
	chain := func(next string, n int) string {
		text := "WITH c0 AS (SELECT 1 AS x)"
		for i := 1; i < n; i++ {
			text += fmt.Sprintf(", c%d AS (%s)", i, strings.ReplaceAll(next, "?", fmt.Sprint("c", i-1)))
		}
		return text + fmt.Sprintf(" SELECT count(*) FROM c%d", n-1)
	}
	nest := func(open string, n int, middle, end string) string {
		return "SELECT " + strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for _, s := range []string{
		"SELECT sum(range) FROM range(100000000000)", "SELECT range(10000000000)", "SELECT unnest(generate_series(1, 1000000000))", "SELECT repeat('a', 10000000000)", "SELECT repeat(repeat('a', 10000), 10000)", "SELECT lpad('x', 2000000000, 'y')",
		"SELECT printf('%2000000000d', 1)", "SELECT format('{:2000000000}', 1)", "SELECT regexp_matches('a', '(a{1000}){1000}')", chain("SELECT * FROM ? a, ? b", 40), chain("SELECT *, * FROM ?", 40),
		nest("(", 20_000, "1", ")"), nest("[", 20_000, "1", "]"), nest("NOT ", 15_000, "true", ""), nest("abs(", 10_000, "1", ")"), "SELECT 1" + strings.Repeat("+1", 30_000), "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 3000),
	} {
		began := time.Now()
		r, _ := a.ask(t, s)
		r.check(t, s[:min(len(s), 80)], 400)
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("%.80s took %v to be refused", s, took)
		}
	}
	r, _ := a.ask(t, "SELECT '"+strings.Repeat("x", 64<<10)+"'")
	r.check(t, "64 kB of text", 413)
	a.rows(t, "SELECT regexp_matches(repeat('a', 100000), '(a*)*b')", "[[false]]")
	if rss := a.memory(t); rss > 1<<30 {
		t.Errorf("the node has %d MiB resident", rss>>20)
	}
}

func attackQueryBodies(t *testing.T, a *target) {
	for body, status := range map[string]int{
		"": 400, "{}": 400, "[]": 400, "null": 400, `{"statement":""}`: 400, `{"language":"x","statement":"SELECT 1"}`: 400, `{"statement":"SELECT 1","foo":1}`: 400, `{"statement":"SELECT 1","statement":"SELECT 2"}`: 400,
		`{"statement":"SELECT 1","time_range":{"start":"x"}}`: 400, `{"statement":"SELECT 1 FROM app","time_range":{"start":"now","end":"now-1h"}}`: 400, `{"statement":"SELECT 1","limit":-1}`: 400, `{"statement":"SELECT 1","limit":1e300}`: 400,
		`{"statement":"SELECT 1","limit":"x"}`: 400, `{"statement":"SELECT $a","params":{"a":"x\u0000"}}`: 400, `{"statement":"SELECT ?","params":[[1]]}`: 400, `{"statement":"SELECT ?"}`: 400, `{"statement":"SELECT 1","params":5}`: 400,
		`{"statement":"SELECT \u0000 1"}`: 400, `{"language":"promql","statement":"up"}`: 400, `{"statement":"SELECT 1"} {}`: 400, strings.Repeat("[", 100_000): 400, `{"statement":"SELECT 1"}`: 200, `{"statement":"SELECT ?","params":["'; DROP TABLE app"]}`: 200,
		`{"statement":"SELECT count(*) FROM app","time_range":{"start":0,"end":1}}`: 200,
	} {
		a.want(t, status, "POST", "/api/v1/query", "application/json", []byte(body))
	}
	a.want(t, 415, "POST", "/api/v1/query", "text/xml", []byte("x"))
	a.want(t, 413, "POST", "/api/v1/query", "application/json", []byte(`{"statement":"`+strings.Repeat("x", 1<<20)+`"}`))
	a.want(t, 400, "POST", "/api/v1/query", "application/json", []byte(`{"statement":"SELECT 1","limti":1}`), `did you mean \"limit\"`)
	a.want(t, 404, "DELETE", "/api/v1/query/running/nothing", "", nil)
	a.want(t, 400, "POST", "/api/v1/query/estimate", "application/json", []byte(`{"statement":"COPY app TO 'x'"}`))
	a.want(t, 404, "POST", "/api/v1/query/estimate", "application/json", []byte(`{"statement":"SELECT * FROM nosuch"}`))
}

func attackFormats(t *testing.T, a *target) {
	const path, big = "/api/v1/query", `{"statement":"SELECT range AS i, repeat('x', 100) AS s FROM range(100001)"}`
	for accept, begin := range map[string]string{"application/json": `{"columns"`, "application/x-ndjson": `{"i":0`, "text/csv": "i,s", "application/vnd.apache.arrow.stream": "\xff\xff\xff\xff", "application/vnd.apache.parquet": "PAR1", "*/*": `{"columns"`} {
		r := a.call(t, "POST", path, "application/json", []byte(big), "Accept: "+accept)
		if r.status != 200 || !strings.HasPrefix(r.body, begin) {
			t.Errorf("%s: %d %.50q", accept, r.status, r.body)
		}
		r = a.call(t, "POST", path, "application/json", []byte(`{"statement":"SELECT * FROM nosuch"}`), "Accept: "+accept)
		r.check(t, "an error for "+accept, 404)
		r.own(t, accept, "not_found")
	}
	r := a.want(t, 200, "POST", path, "application/json", []byte(big), "100000 rows")
	if n := strings.Count(r.body, "xxx\"]"); n != 100_000 {
		t.Errorf("%d rows of a longer answer", n)
	}
	r = a.call(t, "POST", path, "application/json", []byte(`{"statement":"SELECT '=1+1' AS a, '@x' AS b, chr(0) AS c, '\"' AS d"}`), "Accept: text/csv")
	r.check(t, "formulas", 200, "'=1+1", "'@x", `""""`)
}

// One field that is a whole number, then a text, then a fraction, then a truth.
func attackTypes(t *testing.T, a *target) {
	a.send(t, "types", `{"i":1,"v":5}`, `{"i":2,"v":700}`)
	a.Flush()
	a.send(t, "types", `{"i":3,"v":"n/a"}`, `{"i":4,"v":"600"}`)
	a.send(t, "types", `{"i":5,"v":5.5}`)
	a.send(t, "types", `{"i":6,"v":true}`, `{"i":7,"v":[1,2]}`, `{"i":8,"v":null}`, `{"i":9,"v":9007199254740993}`)
	a.stages(t, func(t *testing.T) {
		a.rows(t, "SELECT i, v FROM types ORDER BY i", "[[1 5] [2 700] [3 n/a] [4 600] [5 5.5] [6 true] [7 [1,2]] [8 <nil>] [9 9007199254740993]]")
		for where, want := range map[string]string{
			"v >= 500": "[[2] [4] [9]]", "500 <= v": "[[2] [4] [9]]", "v = 5": "[[1]]", "v = '5'": "[[1]]", "v = 5.5": "[[5]]", "v IN (5, 700)": "[[1] [2]]", "v BETWEEN 5 AND 600": "[[1] [4] [5]]", "v IS NULL": "[[8]]",
			"NOT (v >= 500)": "[[1] [5]]", "v <> 5": "[[2] [4] [5] [9]]", "v = 9007199254740993": "[[9]]", "match_all('n/a')": "[[3]]", "v + 1 > 6": "[[2] [4] [5] [9]]", "v LIKE '%a%'": "[[3]]",
			"v = true": "[[6]]", "v <> false": "[[6]]",
		} {
			a.rows(t, "SELECT i FROM types WHERE "+where+" ORDER BY i", want)
		}
	})
	a.want(t, 200, "GET", "/api/v1/streams/logs/types", "", nil, `"name":"v","type":"string","conflict":true`)
}

func attackFieldNames(t *testing.T, a *target) {
	a.send(t, "names", `{"Level":"A","level":"b","LEVEL":"c","a.b":1,"A.b":2,"x y":3,"select":4,"q\"q":5,"é":6,"http":{"status":{"code":200}},"n\u0000":7,"_timestamp":"2026-01-01T00:00:00Z"}`)
	a.stages(t, func(t *testing.T) {
		for columns, want := range map[string]string{
			`"Level", level, "LEVEL"`: "A b c", `a.b, "A.b"`: "1 2", `"x y", "select"`: "3 4", `"q""q", é`: "5 6", "http.status.code": "200", `"http.status.code"`: "200", "names.level": "b", "t.a.b": "1",
		} {
			from := "names"
			if strings.HasPrefix(columns, "t.") {
				from = "names t"
			}
			a.rows(t, "SELECT "+columns+" FROM "+from, "[["+want+"]]")
		}
		a.rows(t, `SELECT count(*) FROM names WHERE level = 'b' AND "Level" = 'A' AND http.status.code = 200`, "[[1]]")
		for _, column := range []string{"lEvel", "a.B"} {
			r, _ := a.ask(t, "SELECT "+column+" FROM names")
			r.check(t, column, 400, "could be")
		}
	})
}

func attackOverflow(t *testing.T, a *target) {
	for k := range 3 {
		var b strings.Builder
		for i := range 990 {
			fmt.Fprintf(&b, `"f%d":%d,`, k*990+i, k*990+i)
		}
		a.send(t, "wide", "{"+b.String()+fmt.Sprintf(`"message":"m%d"}`, k))
	}
	a.send(t, "wide", `{"late":"zz","message":"last","q\"x":1}`)
	a.stages(t, func(t *testing.T) {
		a.rows(t, "SELECT count(*), count(_overflow) FROM wide", "[[4 2]]")
		a.rows(t, "SELECT f0 FROM wide WHERE f0 IS NOT NULL", "[[0]]")
		a.rows(t, "SELECT _overflow->>'f2900' FROM wide WHERE message = 'm2'", "[[2900]]")
		a.rows(t, "SELECT _overflow FROM wide WHERE message = 'last'", `[[{"late":"zz","q\"x":1}]]`)
		a.rows(t, "SELECT message FROM wide WHERE match_all('zz')", "[[last]]")
	})
}

func attackDeleted(t *testing.T, a *target) {
	for round := range 3 {
		a.send(t, "gone", fmt.Sprintf(`{"round":%d,"f%d":1}`, round, round))
		if round == 1 {
			a.Flush()
		}
		a.rows(t, "SELECT round FROM gone", fmt.Sprintf("[[%d]]", round))
		a.want(t, 204, "DELETE", "/api/v1/streams/logs/gone", "", nil)
		r, _ := a.ask(t, "SELECT * FROM gone")
		r.check(t, "a deleted stream", 404)
		a.want(t, 404, "DELETE", "/api/v1/streams/logs/gone", "", nil)
	}
	a.send(t, "gone", `{"round":"new type"}`)
	a.stages(t, func(t *testing.T) { a.rows(t, "SELECT * EXCLUDE (_timestamp) FROM gone", "[[new type]]") })
}

func attackSearch(t *testing.T, a *target) {
	a.send(t, "search", `{"i":1,"message":"Connection RESET by peer","service":"shop","trace_id":"abc"}`, `{"i":2,"message":"reset the connection"}`, `{"i":3,"message":"ünïcödé Straße 10.0.0.1"}`, `{"i":4,"message":"a\u0000b"}`, `{"i":5,"message":""}`)
	a.stages(t, func(t *testing.T) {
		for words, want := range map[string]string{
			"connection reset": "[[1] [2]]", `"connection reset"`: "[[1]]", "CONNECTION": "[[1] [2]]", "conn": "[]", "shop": "[[1]]", "abc": "[]", "ÜNÏCÖDÉ": "[[3]]", "10.0.0.1": "[[3]]", "": "[[1] [2] [3] [4] [5]]", "nothing here": "[]", `"unclosed`: "[]",
		} {
			a.rows(t, "SELECT i FROM search WHERE match_all('"+words+"') ORDER BY i", want)
		}
		a.rows(t, "SELECT i FROM search WHERE match(message, 'peer') OR re_match(message, '10[.]0') ORDER BY i", "[[1] [3]]")
		a.rows(t, "SELECT i FROM search WHERE message = '' OR message = 'a' || chr(0) || 'b' ORDER BY i", "[[4] [5]]")
	})
}

func attackPromQL(t *testing.T, a *target) {
	const path = "/api/v1/query/prometheus/api/v1/"
	deep := strings.Repeat("(", 150_000) + "1" + strings.Repeat(")", 150_000)
	for _, c := range []struct {
		call, params string
		status       int
	}{
		{"query", "query=up{", 400}, {"query", "query=", 400}, {"query", "query={__name__=~\".*\"}", 400}, {"query", "query=up{a=~\"(\"}", 400}, {"query", "query=max_over_time(up[1000d:1ms])", 400}, {"query", "query=up[100000y]", 400},
		{"query", "query=" + deep, 400}, {"query", "query=" + strings.Repeat("-", 500_000) + "1", 400}, {"query", "query=\x00", 400}, {"query", "query=up&time=x", 400}, {"query", "query=up&timeout=-1s", 400}, {"query", "query=up&limit=-1", 400},
		{"query", "query=up&time=NaN", 200}, {"query", "query=up&time=1e300", 200}, {"query", "query=topk(1e18,up)", 200}, {"query", "query=nosuch", 200}, {"query", "query=label_replace(up,\"\\xff\",\"\",\"\",\"\")", 422},
		{"query_range", "query=up", 400}, {"query_range", "query=up&start=0&end=9999999999&step=1", 400}, {"query_range", "query=up&start=0&end=10&step=0", 400}, {"query_range", "query=up&start=10&end=0&step=1", 400},
		{"query_range", "query=up&start=NaN&end=Inf&step=1", 200}, {"query_range", "query=up&start=0&end=1e9&step=1e-9", 400}, {"query_range", "query=max_over_time(up[1m:1s])&start=0&end=9999999999&step=1000000", 400},
		{"series", "", 400}, {"series", "match[]={}", 400}, {"series", "match[]=up{", 400}, {"labels", "start=x", 400}, {"query_exemplars", "query=" + deep, 400}, {"format_query", "query=" + deep, 400}, {"query", "query=" + deep + deep, 413}, {"format_query", "query=up(", 400},
	} {
		values := url.Values{}
		for _, p := range strings.Split(c.params, "&") {
			name, value, _ := strings.Cut(p, "=")
			values.Set(name, value)
		}
		r := a.call(t, "POST", path+c.call, "application/x-www-form-urlencoded", []byte(values.Encode()))
		what := fmt.Sprintf("%s %.80s", c.call, c.params)
		if r.check(t, what, c.status); c.status >= 400 {
			r.check(t, what, c.status, `"status":"error"`, `"errorType":`)
		}
	}
	a.want(t, 400, "GET", path+"label/%ff/values", "", nil, `"bad_data"`)
	a.want(t, 404, "GET", path+"admin/tsdb/snapshot", "", nil)
	a.call(t, "GET", path+"query?query=up", "", nil, "Authorization: ").check(t, "nobody", 401, `"status":"error"`)
}

func attackExplorer(t *testing.T, a *target) {
	for path, status := range map[string]int{
		"traces/zz": 400, "traces/" + strings.Repeat("0", 31) + "1": 404, "traces/%00": 400, "traces/" + strings.Repeat("a", 5000): 400, "traces?min_duration=x": 400, "traces?min_duration=-5s": 400, "traces?limit=-1": 400, "traces?limit=x": 400,
		"traces?start=x": 400, "traces?start=now&end=now-1h": 400, "traces?service=%27%20or%201%3D1": 200, "traces?service=%ff": 200, "services?start=x": 400, "tail": 400, "tail?stream=nosuch": 404, "tail?stream=app&filter=(": 400,
		"tail?stream=app&filter=getenv('HOME')": 400, "tail?stream=app&filter=n%20in%20(select%201)": 400, "tail?stream=..%2fx": 404,
	} {
		a.call(t, "GET", "/api/v1/query/"+path, "", nil).check(t, path, status)
	}
	for body, status := range map[string]int{`{"stream":"app"}`: 200, `{"stream":"nosuch"}`: 404, `{"stream":"app","filter":"getenv('HOME') = ''"}`: 400, `{"stream":"app","filter":"1=1) UNION SELECT 1 --"}`: 400, `{}`: 400} {
		a.want(t, status, "POST", "/api/v1/query/fields", "application/json", []byte(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/api/v1/query/tail?stream=app&filter="+url.QueryEscape("level = 'error'"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a.send(t, "app", `{"level":"info","message":"not this"}`, `{"level":"error","message":"this one"}`)
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), "this one") {
		n, err := resp.Body.Read(buf)
		if seen.Write(buf[:n]); err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
	}
	if strings.Contains(seen.String(), "not this") {
		t.Errorf("the tail shows what its filter excludes: %q", seen.String())
	}
}

// Queries that are canceled, by their client or from outside, leave nothing behind and soon give back what they held.
func attackCancel(t *testing.T, a *target) {
	slow := []byte(`{"statement":"SELECT count(*) FROM range(9000000) a, range(9000000) b"}`)
	var wg sync.WaitGroup
	for range 3 { // the client leaves
		wg.Go(func() {
			client := &http.Client{Timeout: 500 * time.Millisecond}
			req, err := http.NewRequest(http.MethodPost, a.URL+"/api/v1/query", strings.NewReader(string(slow)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+a.Token)
			req.Header.Set("Content-Type", "application/json")
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("the query answered %d", resp.StatusCode)
			}
		})
	}
	wg.Wait()
	running := func() (ids []string) {
		var list struct{ Queries []struct{ ID string } }
		r := a.call(t, "GET", "/api/v1/query/running", "", nil)
		if err := json.Unmarshal([]byte(r.body), &list); err != nil {
			t.Error(err)
		}
		for _, q := range list.Queries {
			ids = append(ids, q.ID)
		}
		return ids
	}
	mstest.WaitFor(t, time.Minute, "the queries whose clients left are gone", func() bool { return len(running()) == 0 })
	wg.Go(func() {
		if r := a.call(t, "POST", "/api/v1/query", "application/json", slow); r.status != 499 {
			t.Errorf("a canceled query: %v", r)
		}
	})
	var ids []string
	mstest.WaitFor(t, time.Minute, "the query runs", func() bool { ids = running(); return len(ids) == 1 })
	if r := a.call(t, "DELETE", "/api/v1/query/running/"+ids[0], "", nil); r.status/100 != 2 {
		t.Errorf("cancel: %v", r)
	}
	wg.Wait()
	a.rows(t, "SELECT 1", "[[1]]")
}
