package cluster

// Grid divides time, in nanoseconds since the epoch, into columns of one width from Start on. The zero value has none.
type Grid struct {
	Start, Width int64
	Columns      int
}

// column is that of a time; false outside of the grid.
func (g Grid) column(t int64) (int, bool) {
	if t < g.Start || g.Columns == 0 {
		return 0, false
	}
	c := uint64(t-g.Start) / uint64(g.Width) // the difference may be more than an int64 holds
	return int(c), c < uint64(g.Columns)
}

// Cell is what a node owns of a column.
type Cell struct {
	Segments int
	Bytes    int64
}

// Tally counts what each node of a placement owns, by time. It is not safe for concurrent use.
type Tally struct {
	placement *Placement
	grid      Grid
	shares    []Share
	cells     []Cell // by node and column
	total     int
	bytes     int64
}

// NewTally counts for a placement, which may be one without nodes: then nobody owns anything.
func NewTally(p *Placement, g Grid) *Tally {
	return &Tally{placement: p, grid: g, shares: p.shares(), cells: make([]Cell, len(p.nodes)*g.Columns)}
}

// Timed is a segment of a tally. Its time is that of its newest record.
type Timed struct {
	Piece
	At int64
}

// Add counts some segments.
func (t *Tally) Add(segments []Timed) {
	keys := make([]Key, len(segments))
	for i, s := range segments {
		keys[i] = s.Key
	}
	owners := NewTable(t.placement, keys)
	t.total += len(segments)
	for i, s := range segments {
		t.bytes += s.Bytes
		o := owners.Owner(i)
		if o < 0 {
			continue
		}
		t.shares[o].Segments++
		t.shares[o].Bytes += s.Bytes
		if c, ok := t.grid.column(s.At); ok {
			cell := &t.cells[o*t.grid.Columns+c]
			cell.Segments++
			cell.Bytes += s.Bytes
		}
	}
}

// Total is how many segments were added, and their bytes.
func (t *Tally) Total() (segments int, bytes int64) { return t.total, t.bytes }

// Shares are what the nodes own, by placement id.
func (t *Tally) Shares() []Share {
	setActual(t.shares, t.total)
	return t.shares
}

// Row is what the i-th node of the placement owns in each column.
func (t *Tally) Row(i int) []Cell { return t.cells[i*t.grid.Columns : (i+1)*t.grid.Columns] }
