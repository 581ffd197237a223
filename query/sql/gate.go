package sql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/millstream/millstream"
)

const (
	gateConns     = 4  // parses at a time; each takes well under a millisecond
	maxComments   = 64 // of the /* kind: the parser's time is quadratic in them
	maxCachedText = 2 << 10
	maxCached     = 128
)

// parserSettings are those of the parser's instance. They are given when it is opened, not per connection: the last one forbids to set any.
const parserSettings = "threads=1&memory_limit=256MB&autoinstall_known_extensions=false&autoload_known_extensions=false" +
	"&enable_external_access=false&lock_configuration=true"

// Gate parses statements with DuckDB's own parser and lets through what is allowed. It is safe for concurrent use. It never runs a statement: its instance
// holds nothing, may not touch files or network (its configuration is locked), and serves as a parser only. The parser bounds its own recursion (expression
// depth 1,000, a limited stack for the grammar), which the tests check with texts of the full length: a fault here would end the node.
type Gate struct {
	db          *sql.DB
	serialize   *sql.Stmt
	deserialize *sql.Stmt

	mu    sync.Mutex
	cache map[string]*Statement // statements without parameters, by text
	order []string              // cached texts, oldest first
}

// NewGate opens the parser.
func NewGate() (*Gate, error) {
	connector, err := duckdb.NewConnector("?"+parserSettings, nil)
	if err != nil {
		return nil, fmt.Errorf("open SQL parser: %w", err)
	}
	g := &Gate{db: sql.OpenDB(connector), cache: make(map[string]*Statement)}
	g.db.SetMaxOpenConns(gateConns)
	g.db.SetMaxIdleConns(gateConns)
	if err := g.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare SQL parser: %w", err), g.Close())
	}
	return g, nil
}

func (g *Gate) prepare() (err error) {
	if g.serialize, err = g.db.Prepare("SELECT CAST(json_serialize_sql(CAST($1 AS VARCHAR)) AS VARCHAR)"); err != nil {
		return err
	}
	g.deserialize, err = g.db.Prepare("SELECT json_deserialize_sql(CAST($1 AS JSON))")
	return err
}

// Close releases the parser. Statements it made must not be bound any more.
func (g *Gate) Close() error { return g.db.Close() }

// Parse reads one statement and checks it. An error is of kind Invalid or TooLarge and, where it can, says the position.
func (g *Gate) Parse(ctx context.Context, statement string, params Params) (*Statement, error) {
	cacheable := len(statement) <= maxCachedText && params.empty()
	if cacheable {
		if s := g.cached(statement); s != nil {
			return s, nil
		}
	}
	if err := checkText(statement); err != nil {
		return nil, err
	}
	tree, err := g.parse(ctx, statement)
	if err != nil {
		return nil, err
	}
	s := &Statement{gate: g, text: statement, tree: tree}
	if err := s.admit(params); err != nil {
		return nil, err
	}
	if cacheable {
		g.keep(statement, s)
	}
	return s, nil
}

// admit runs every check of the gate on a fresh tree.
func (s *Statement) admit(params Params) error {
	if err := params.fill(s.text, s.tree); err != nil {
		return err
	}
	if done, err := s.show(); done || err != nil {
		return err
	}
	if err := check(s.text, s.tree); err != nil {
		return err
	}
	s.collectTables()
	return nil
}

func (g *Gate) cached(statement string) *Statement {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cache[statement]
}

func (g *Gate) keep(statement string, s *Statement) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.cache[statement]; ok {
		return
	}
	if len(g.order) == maxCached {
		delete(g.cache, g.order[0])
		g.order = append(g.order[:0], g.order[1:]...)
	}
	g.cache[statement], g.order = s, append(g.order, statement)
}

func checkText(statement string) error {
	switch {
	case len(statement) > MaxText:
		return millstream.Errorf(millstream.TooLarge, "the statement has %d bytes; the limit is %d", len(statement), MaxText)
	case !utf8.ValidString(statement):
		return millstream.Errorf(millstream.Invalid, "the statement is not valid UTF-8")
	case strings.IndexByte(statement, 0) >= 0:
		return invalid(statement, strings.IndexByte(statement, 0), "", "the statement has a NUL character")
	case strings.TrimSpace(statement) == "":
		return millstream.Errorf(millstream.Invalid, "the statement is empty")
	}
	if strings.Count(statement, "/*") > maxComments {
		return millstream.Errorf(millstream.Invalid, "the statement has more than %d comments; use the -- kind", maxComments)
	}
	return nil
}

// parsed is the answer of json_serialize_sql.
type parsed struct {
	Error      bool   `json:"error"`
	Message    string `json:"error_message"`
	Type       string `json:"error_type"`
	Position   string `json:"position"`
	Statements []struct {
		Node node `json:"node"`
	} `json:"statements"`
}

func (g *Gate) parse(ctx context.Context, statement string) (node, error) {
	var out string
	if err := g.serialize.QueryRowContext(ctx, statement).Scan(&out); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, millstream.Wrap(millstream.Invalid, err, "the statement cannot be parsed: %s", firstLine(err.Error()))
	}
	var p parsed
	dec := json.NewDecoder(strings.NewReader(out))
	dec.UseNumber()
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("read syntax tree: %w", err)
	}
	switch {
	case p.Error:
		return nil, syntaxError(statement, &p)
	case len(p.Statements) != 1:
		return nil, millstream.Errorf(millstream.Invalid, "%d statements were sent; one is allowed at a time", len(p.Statements))
	case p.Statements[0].Node == nil:
		return nil, errors.New("the syntax tree has no query")
	}
	return p.Statements[0].Node, nil
}

func syntaxError(statement string, p *parsed) error {
	// The type is DuckDB's name for the error of a statement that is no SELECT: its serializer takes nothing else.
	if p.Type == "not implemented" && strings.Contains(p.Message, "SELECT") {
		return invalid(statement, 0, "", "only one SELECT statement is allowed (SHOW TABLES and DESCRIBE <stream> are answered as well)%s", pivotNote(statement))
	}
	at := -1
	if i, err := strconv.Atoi(p.Position); err == nil {
		at = byteOffset(statement, i)
	}
	return invalid(statement, at, reservedName(statement, at), "%s", firstLine(p.Message))
}

// byteOffset is where a character begins: DuckDB counts characters in the positions of syntax errors, and bytes in the tree. -1 beyond the end.
func byteOffset(text string, character int) int {
	for i := range text {
		if character--; character < 0 {
			return i
		}
	}
	if character == 0 {
		return len(text)
	}
	return -1
}

var (
	beforeName = regexp.MustCompile(`(?i)\b(from|join|describe)\s+$`)
	plainName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
)

// reservedName is a hint for a syntax error at the name of a stream: SQL reserves words that are good names, first of all default.
func reservedName(statement string, at int) string {
	if at < 0 || at > len(statement) || !beforeName.MatchString(statement[:at]) {
		return ""
	}
	if name := plainName.FindString(statement[at:]); name != "" {
		return fmt.Sprintf("%s is a word of SQL: write \"%s\" or logs.%s", name, name, name)
	}
	return ""
}

// pivotNote explains the one SELECT-like statement that DuckDB itself turns into several. It looks at the first word only to choose a better message.
func pivotNote(statement string) string {
	if word, _, _ := strings.Cut(strings.TrimSpace(statement), " "); strings.EqualFold(word, "pivot") {
		return "; for PIVOT, write one aggregate with FILTER (WHERE …) per column"
	}
	return ""
}

// render turns a query node back to SQL.
func (g *Gate) render(ctx context.Context, tree node) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(node{"error": false, "statements": []any{node{"node": tree, "named_param_map": []any{}}}}); err != nil {
		return "", fmt.Errorf("write syntax tree: %w", err)
	}
	var out string
	if err := g.deserialize.QueryRowContext(ctx, buf.String()).Scan(&out); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("render syntax tree: %w", err)
	}
	return out, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
