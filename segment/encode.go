package segment

import (
	"encoding/hex"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
)

// Options tune encoding; the zero value is the write path's choice.
type Options struct {
	Level     int  // zstd level; 0 and 1 are the fastest
	TimeOrder bool // keep rows in time order within runs instead of clustering them
	// Indexed are fields whose values get a filter beside what they have anyway, so that a search for a whole value skips the runs without it. It counts for fields
	// of texts with many values; of all others the index knows the values, or their bounds. A run that a merge copies keeps the filters that it has.
	Indexed []string
}

// Info describes a segment that was written. Times are in ns, both included; sums are hex BLAKE3-256 of each object's bytes.
type Info struct {
	Rows              int64
	MinTime, MaxTime  int64
	DataSize          int64
	IndexSize         int64
	DataSum, IndexSum string
	Fields            []FieldStat
	Indexed           []string // of Options.Indexed those that every run has what it should of
}

// A run is bounded by the bytes of its values, so that encoding one takes bounded memory, and so does reading a block of it, here and in DuckDB, which reads a row
// group in chunks of 2,048 rows: they may be rows of a megabyte.
const (
	// maxRunBytes is more than a full run of ordinary records has, of some 500 bytes each. To encode texts of nothing but short words that stand nowhere else takes
	// nine times their size for the words alone.
	maxRunBytes = 40 << 20
	// largeRow is the size from which on records are large: a block of smaller ones is at most largeRunBytes.
	largeRow = largeRunBytes / blockRows
	// largeRunBytes bounds what a run holds of large records. All of them may lie in one block, so in one page, which is held whole, plain and compressed, to write
	// it and to read a single record of it.
	largeRunBytes = 16 << 20
)

var runWriters sync.Pool // of *runWriter at level 0

// Encode writes the records of the batches as one segment: a Parquet object to data and its index to index. Fields that have different types in different
// batches get their least common type. An empty input is Invalid.
func Encode(data, index io.Writer, batches []*millstream.Batch, o Options) (Info, error) {
	t, err := newTable(batches)
	if err != nil {
		return Info{}, err
	}
	if len(t.refs) == 0 {
		return Info{}, millstream.Errorf(millstream.Invalid, "a segment needs at least one record")
	}
	f := newFileWriter(data, index)
	f.indexed = o.Indexed
	for _, fd := range t.fields {
		f.field(FieldStat{Name: fd.name, Type: fd.typ, WideInt: fd.wide})
	}
	if err := eachRun(t, o, f.run); err != nil {
		return Info{}, err
	}
	return f.close()
}

// eachRun encodes a table's records, run by run.
func eachRun(t *table, o Options, f func(info runInfo, cols []column, data, index []byte) error) error {
	w, _ := runWriters.Get().(*runWriter)
	if w == nil || o.Level > 1 {
		w = newRunWriter(o.Level)
	}
	w.setIndexed(o.Indexed)
	if o.Level <= 1 {
		defer runWriters.Put(w)
	}
	main := -1
	if !o.TimeOrder {
		main = t.mainText()
	}
	for from := 0; from < len(t.refs); {
		to := t.runEnd(from, maxRunBytes, largeRunBytes)
		info, err := w.write(t, t.refs[from:to], main, to == len(t.refs))
		if err != nil {
			return err
		}
		from = to
		if err := f(info, w.cols, w.data, w.index.p); err != nil {
			return err
		}
	}
	return nil
}

// fileWriter writes the two objects of a segment from encoded runs.
type fileWriter struct {
	data, index counter
	fields      []FieldStat
	byName      map[string]int
	runs        []runInfo
	parquet     parquetFooter
	piece       []byte          // of a run that is copied
	indexed     []string        // Options.Indexed
	lacking     map[string]bool // of them, those that some run has no filter of
}

// copyBytes is how much of a run is copied at a time.
const copyBytes = 1 << 20

// counter counts and sums what passes through.
type counter struct {
	w   io.Writer
	n   int64
	sum *blake3.Hasher
}

func (c *counter) write(p []byte) error {
	n, err := c.w.Write(p)
	c.n += int64(n)
	_, _ = c.sum.Write(p[:n])
	return err
}

func newFileWriter(data, index io.Writer) *fileWriter {
	return &fileWriter{data: counter{w: data, sum: blake3.New()}, index: counter{w: index, sum: blake3.New()}, byName: map[string]int{}}
}

// field announces a field, or widens what is known of it by WideInt. All are announced before the first run.
func (f *fileWriter) field(s FieldStat) {
	if i, ok := f.byName[s.Name]; ok {
		f.fields[i].WideInt = f.fields[i].WideInt || s.WideInt
		return
	}
	f.byName[s.Name] = len(f.fields)
	f.fields = append(f.fields, FieldStat{Name: s.Name, Type: s.Type, WideInt: s.WideInt})
}

// run appends a run. Its data and index are the bytes that a runWriter made.
func (f *fileWriter) run(info runInfo, cols []column, data, index []byte) error {
	if err := f.magic(); err != nil {
		return err
	}
	info.dataBase = f.data.n
	if err := f.data.write(data); err != nil {
		return err
	}
	return f.endRun(info, cols, index)
}

// copyRun appends a run whose data lies in another object. It holds a piece of it at a time.
func (f *fileWriter) copyRun(info runInfo, cols []column, from io.ReaderAt, index []byte) error {
	if err := f.magic(); err != nil {
		return err
	}
	source, base := info.dataBase, f.data.n
	for at := int64(0); at < info.dataSize; {
		f.piece = resize(f.piece, int(min(info.dataSize-at, copyBytes)))
		if err := readFull(from, f.piece, source+at); err != nil {
			return err
		}
		if err := f.data.write(f.piece); err != nil {
			return err
		}
		at += int64(len(f.piece))
	}
	info.dataBase = base
	return f.endRun(info, cols, index)
}

// magic begins the Parquet file, unless it is begun.
func (f *fileWriter) magic() error {
	if f.data.n > 0 {
		return nil
	}
	return f.data.write([]byte(parquetMagic))
}

func (f *fileWriter) endRun(info runInfo, cols []column, index []byte) error {
	if err := f.parquet.rowGroup(f, info, cols); err != nil {
		return err
	}
	return f.addRun(info, cols, index)
}

// addRun appends a run whose data is written to the index.
func (f *fileWriter) addRun(info runInfo, cols []column, index []byte) error {
	info.base = f.index.n
	for i := range cols {
		c := &cols[i]
		if k, ok := f.byName[c.name]; ok {
			f.fields[k].Rows += c.rows
		}
		if c.typ == millstream.String && c.values == nil && c.bloom.size == 0 && slices.Contains(f.indexed, c.name) {
			if f.lacking == nil {
				f.lacking = map[string]bool{}
			}
			f.lacking[c.name] = true
		}
	}
	f.runs = append(f.runs, info)
	return f.index.write(index)
}

const (
	indexMagic   = "MSindex1"
	trailerSize  = 4 + 4 + len(indexMagic)
	parquetMagic = "PAR1"
)

// close writes both footers.
func (f *fileWriter) close() (Info, error) {
	footer, err := f.parquet.bytes(f)
	if err != nil {
		return Info{}, err
	}
	if err := f.data.write(footer); err != nil {
		return Info{}, err
	}
	out, err := f.closeIndex()
	out.DataSize, out.DataSum = f.data.n, hex.EncodeToString(f.data.sum.Sum(nil))
	return out, err
}

// closeIndex writes the index's footer. The result says nothing of the data's bytes.
func (f *fileWriter) closeIndex() (Info, error) {
	out := Info{MinTime: f.runs[0].minTime, MaxTime: f.runs[0].maxTime, Fields: f.fields}
	var w writer
	w.uint(uint64(len(f.fields)))
	for _, s := range f.fields {
		w.string(s.Name)
		w.byte(byte(s.Type))
		w.byte(map[bool]byte{true: 1}[s.WideInt])
		w.uint(uint64(s.Rows))
	}
	w.uint(uint64(len(f.runs)))
	for _, r := range f.runs {
		w.uint(uint64(r.rows))
		w.int(r.minTime)
		w.int(r.maxTime)
		w.sizes(r.dataBase, r.dataSize, r.base, r.size)
		w.region(r.header)
		out.Rows += int64(r.rows)
		out.MinTime, out.MaxTime = min(out.MinTime, r.minTime), max(out.MaxTime, r.maxTime)
	}
	w.fixed32(checksum(w.p))
	w.fixed32(uint32(len(w.p) - 4))
	w.p = append(w.p, indexMagic...)
	if err := f.index.write(w.p); err != nil {
		return Info{}, err
	}
	out.IndexSize, out.IndexSum = f.index.n, hex.EncodeToString(f.index.sum.Sum(nil))
	for _, name := range f.indexed {
		if !f.lacking[name] {
			out.Indexed = append(out.Indexed, name)
		}
	}
	return out, nil
}
