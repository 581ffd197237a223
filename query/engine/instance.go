package engine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2/mapping"
	"github.com/millstream/millstream"
	"golang.org/x/sys/unix"
)

// lateRows lets a query with a LIMIT of up to so many rows find them by their sort column first and read the other columns of those rows only. DuckDB's own
// limit, 50, would make it decode every column of every row.
const lateRows = 10_000

// instance is a DuckDB in memory and its one connection. It serves one job.
type instance struct {
	db   mapping.Database
	conn mapping.Connection
}

// settings hold for every instance. The time zone is fixed: a query may not depend on where the node stands.
var settings = [][2]string{
	{"autoinstall_known_extensions", "false"}, {"autoload_known_extensions", "false"}, {"allow_community_extensions", "false"},
	{"enable_external_file_cache", "false"}, {"late_materialization_max_rows", fmt.Sprint(lateRows)}, {"threads", "1"},
}

// sessionSettings can only be set on a connection. DuckDB does not count long texts when it buffers an answer's chunks, nor when its operators gather chunks of few
// rows up to 2,048. Of rows of a megabyte both take gigabytes, so neither is done: about one chunk waits to be read.
const sessionSettings = "SET TimeZone = 'UTC'; SET enable_caching_operators = false; SET streaming_buffer_size = '1KB'"

func openInstance() (*instance, error) {
	var config mapping.Config
	if mapping.CreateConfig(&config) != mapping.StateSuccess {
		return nil, errors.New("create configuration")
	}
	defer mapping.DestroyConfig(&config)
	for _, s := range settings {
		if mapping.SetConfig(config, s[0], s[1]) != mapping.StateSuccess {
			return nil, fmt.Errorf("set %s", s[0])
		}
	}
	i := new(instance)
	var message string
	if mapping.OpenExt(":memory:", &i.db, config, &message) != mapping.StateSuccess {
		return nil, fmt.Errorf("open instance: %s", message)
	}
	if mapping.Connect(i.db, &i.conn) != mapping.StateSuccess {
		i.close()
		return nil, errors.New("connect to instance")
	}
	return i, i.exec(sessionSettings)
}

func (i *instance) close() {
	mapping.Disconnect(&i.conn)
	mapping.Close(&i.db)
}

func (i *instance) interrupt() { mapping.Interrupt(i.conn) }

// exec runs statements of our own.
func (i *instance) exec(sql string) error {
	var res mapping.Result
	defer mapping.DestroyResult(&res)
	if mapping.Query(i.conn, sql, &res) != mapping.StateSuccess {
		return fmt.Errorf("%s: %s", firstWords(sql), mapping.ResultError(&res))
	}
	return nil
}

func firstWords(sql string) string { return sql[:min(len(sql), 40)] }

// prepare makes the job's views and then locks the instance, in the order that works: what it may read is named while it still may be, the views are made
// over it, and then nothing outside the views can be reached and nothing can be set any more.
func (i *instance) prepare(j *Job, l limits) error {
	var b strings.Builder
	fmt.Fprintf(&b, "SET temp_directory = %s; SET max_temp_directory_size = '%d bytes'; ", quote(l.TempDir), l.Temp)
	fmt.Fprintf(&b, "SET memory_limit = '%d bytes'; SET threads = %d; ", l.Memory, l.Threads)
	b.WriteString("SET allowed_paths = [")
	for n, t := range j.Tables {
		for m, f := range t.Files {
			if n+m > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(f))
		}
	}
	b.WriteString("]; ")
	for n := range j.Tables {
		writeView(&b, &j.Tables[n])
	}
	b.WriteString("SET enable_external_access = false; SET lock_configuration = true;")
	return i.exec(b.String())
}

// writeView writes a view that opens no file before the query runs: the schema is given. The map's keys are the columns' names in the files.
func writeView(b *strings.Builder, t *Table) {
	fmt.Fprintf(b, "CREATE VIEW %s AS ", identifier(t.View))
	if len(t.Files) == 0 {
		writeEmpty(b, t)
		return
	}
	b.WriteString("SELECT * FROM read_parquet([")
	for n, f := range t.Files {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(f))
	}
	b.WriteString("], schema = MAP {")
	for n, c := range t.Columns {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%s: {name: %s, type: '%s', default_value: NULL}", quote(c.ID), quote(c.Name), sqlType(c.Type))
	}
	b.WriteString("})")
	b.WriteString(within(t.Range))
	b.WriteString("; ")
}

// within is the condition of a time range. A bound at the end of what nanoseconds can hold is no bound: DuckDB takes those values for infinities.
func within(r *millstream.TimeRange) string {
	if r == nil {
		return ""
	}
	var conds []string
	name := identifier(millstream.TimestampField)
	if r.Start > math.MinInt64+1 {
		conds = append(conds, fmt.Sprintf("%s >= make_timestamp_ns(%d)", name, r.Start))
	}
	if r.End < math.MaxInt64 {
		conds = append(conds, fmt.Sprintf("%s < make_timestamp_ns(%d)", name, r.End))
	}
	if len(conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conds, " AND ")
}

// writeEmpty writes a view without rows.
func writeEmpty(b *strings.Builder, t *Table) {
	b.WriteString("SELECT ")
	for n, c := range t.Columns {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "CAST(NULL AS %s) AS %s", sqlType(c.Type), identifier(c.Name))
	}
	b.WriteString(" WHERE false; ")
}

func sqlType(t millstream.Type) string {
	switch t {
	case millstream.Bool:
		return "BOOLEAN"
	case millstream.Int64:
		return "BIGINT"
	case millstream.Double:
		return "DOUBLE"
	case millstream.Timestamp:
		return "TIMESTAMP_NS"
	}
	return "VARCHAR"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
