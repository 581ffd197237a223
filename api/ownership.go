package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/rpc"
	"github.com/millstream/millstream/store"
)

// placed is where the segments that nodes own are read. *store.Store fits.
type placed interface {
	Footprints(ctx context.Context, org millstream.OrgID, stream millstream.StreamID, f func(store.Footprint) error) error
	FootprintSpan(ctx context.Context, org millstream.OrgID, stream millstream.StreamID) (first, last int64, err error)
	LiveSegment(ctx context.Context, org millstream.OrgID, id millstream.SegmentID) (g millstream.Segment, stream string, err error)
}

type ownerView struct {
	ID          string   `json:"id" doc:"of the node"`
	PlacementID string   `json:"placement_id" doc:"of its cache directory: what is hashed"`
	State       string   `json:"state" doc:"up, or silent: it keeps its segments for a while and its standbys read them"`
	Weight      float64  `json:"weight" doc:"in vCPU"`
	Expected    float64  `json:"expected" doc:"its part of all weights, of 1"`
	Actual      float64  `json:"actual" doc:"its part of the segments, of 1"`
	Segments    int      `json:"segments"`
	Bytes       int64    `json:"bytes"`
	CachedBytes *int64   `json:"cached_bytes,omitempty" doc:"in its cache, of all organizations; absent while the node cannot be asked"`
	WarmPercent *float64 `json:"warm_percent,omitempty" doc:"of the segments that it owns, of all organizations, those whose index is in its cache; absent while the node does not tell, or has not counted since the owners changed"`
}

type heatRowView struct {
	ID       string  `json:"id" doc:"of the node"`
	Segments []int   `json:"segments" doc:"by bucket"`
	Bytes    []int64 `json:"bytes" doc:"by bucket"`
}

type heatmapView struct {
	Start         stamp         `json:"start,omitzero" doc:"absent without segments"`
	End           stamp         `json:"end,omitzero" doc:"excluded"`
	BucketSeconds float64       `json:"bucket_seconds"`
	Buckets       int           `json:"buckets"`
	Rows          []heatRowView `json:"rows" doc:"of the members, in their order; a segment is in the bucket of its newest record"`
}

type ownershipView struct {
	PlacementVersion uint64      `json:"placement_version" doc:"grows whenever owners or weights change; of the node that answers, to be compared with itself only"`
	Segments         int         `json:"segments" doc:"live ones of the organization, or of the stream"`
	Bytes            int64       `json:"bytes"`
	Members          []ownerView `json:"members" doc:"the nodes that own segments, by id"`
	Heatmap          heatmapView `json:"heatmap"`
}

type rankView struct {
	Rank        int     `json:"rank" doc:"1: the owner; then its standbys in order"`
	ID          string  `json:"id" doc:"of the node"`
	PlacementID string  `json:"placement_id"`
	State       string  `json:"state" doc:"up or silent"`
	Weight      float64 `json:"weight" doc:"in vCPU"`
	Cost        float64 `json:"cost" doc:"−log2 of the hash over the weight in vCPU: the lowest owns"`
}

type rankingView struct {
	ID               string     `json:"id"`
	Signal           string     `json:"signal"`
	Stream           string     `json:"stream"`
	Start            stamp      `json:"start"`
	End              stamp      `json:"end"`
	Rows             int64      `json:"rows"`
	Bytes            int64      `json:"bytes"`
	Level            int        `json:"level" doc:"how many merges it went through"`
	PlacementVersion uint64     `json:"placement_version"`
	Ranking          []rankView `json:"ranking" doc:"every node that owns segments; work for one that is silent goes to the next"`
}

const (
	defaultBuckets = 60
	maxBuckets     = 200
	// placedAtOnce is how many segments are placed together: enough to be worth several processors, few enough to be nothing in memory.
	placedAtOnce = 1 << 16
)

func (a *API) ownershipRoutes() []route {
	const root = v1 + "/cluster/ownership"
	admin := administer(auth.Admin)
	return []route{
		{method: "GET", path: root, policy: admin, handle: a.ownership, doc: operation{summary: "Which node owns how much of the organization's segments, in all and by time", reply: ownershipView{}, query: []param{
			{"start", "string", "of the heatmap: RFC 3339, epoch number, or relative such as now-7d; default: that of the oldest segment"},
			{"end", "string", "excluded; default: after the newest segment"},
			{"buckets", "integer", "of the heatmap, 1 to 200; default 60"},
			{"stream", "string", "only this stream's segments"},
			{"signal", "string", "of that stream: logs, metrics or traces; default logs"},
		}}},
		{method: "GET", path: root + "/segments/{id}", policy: admin, handle: a.segmentRanking, doc: operation{summary: "A segment's owner and its standbys in order", reply: rankingView{}}},
		{method: "POST", path: root + "/simulate", policy: admin.asking(), handle: a.simulate, doc: operation{summary: "What other nodes or weights would move; nothing is changed", body: simulateBody{}, reply: simulationView{}}},
	}
}

func (a *API) ownership(w http.ResponseWriter, r *http.Request) error {
	org := who(r).Org
	stream, err := a.streamAsked(r)
	if err != nil {
		return err
	}
	grid, err := a.gridAsked(r, org, stream)
	if err != nil {
		return err
	}
	view := a.View()
	p := view.Placement()
	t := cluster.NewTally(p, grid)
	if err := a.eachPlaced(r.Context(), org, stream, t.Add); err != nil {
		return err
	}
	out := ownershipView{PlacementVersion: p.Version(), Members: make([]ownerView, len(p.Nodes())), Heatmap: heatmapOf(grid, len(p.Nodes()))}
	out.Segments, out.Bytes = t.Total()
	said := a.watched.statuses(r.Context(), a)
	for i, s := range t.Shares() {
		out.Members[i] = ownerOf(view, s, said)
		out.Heatmap.Rows[i] = heatRow(string(s.Node.Node), t.Row(i))
	}
	slices.SortFunc(out.Members, func(a, b ownerView) int { return strings.Compare(a.ID, b.ID) }) // they came by placement id
	slices.SortFunc(out.Heatmap.Rows, func(a, b heatRowView) int { return strings.Compare(a.ID, b.ID) })
	return reply(w, http.StatusOK, out)
}

// streamAsked is the stream that the request is about; empty: all.
func (a *API) streamAsked(r *http.Request) (millstream.StreamID, error) {
	q := r.URL.Query()
	name := q.Get("stream")
	if name == "" {
		return "", nil
	}
	sig := millstream.Logs
	if text := q.Get("signal"); text != "" {
		var err error
		if sig, err = millstream.ParseSignal(text); err != nil {
			return "", err
		}
	}
	if err := decode.CheckStream(name); err != nil {
		return "", err
	}
	s, err := a.Streams.Stream(r.Context(), millstream.StreamKey{Org: who(r).Org, Signal: sig, Name: name})
	return s.ID, err
}

// gridAsked is the heatmap's: by default the span of the segments.
func (a *API) gridAsked(r *http.Request, org millstream.OrgID, stream millstream.StreamID) (cluster.Grid, error) {
	q := r.URL.Query()
	buckets, err := queryInt(r, "buckets", defaultBuckets, maxBuckets)
	if err != nil {
		return cluster.Grid{}, err
	}
	span, err := timespec.Range(q.Get("start"), q.Get("end"), a.Now())
	if err != nil {
		return cluster.Grid{}, err
	}
	if q.Get("start") == "" || q.Get("end") == "" {
		first, last, err := a.Placed.FootprintSpan(r.Context(), org, stream)
		if err != nil || first == 0 && last == 0 && q.Get("start") == q.Get("end") { // there is nothing, and nothing was asked
			return cluster.Grid{}, err
		}
		if q.Get("start") == "" {
			span.Start = min(first, span.End-1)
		}
		if q.Get("end") == "" {
			span.End = max(last, span.Start) + 1
		}
	}
	width := uint64(span.End-span.Start-1)/uint64(buckets) + 1 // the last bucket may end after the range
	return cluster.Grid{Start: span.Start, Width: int64(width), Columns: buckets}, nil
}

// eachPlaced gives the live segments in parts of which only one is in memory.
func (a *API) eachPlaced(ctx context.Context, org millstream.OrgID, stream millstream.StreamID, f func([]cluster.Timed)) error {
	part := make([]cluster.Timed, 0, placedAtOnce)
	err := a.Placed.Footprints(ctx, org, stream, func(s store.Footprint) error {
		part = append(part, cluster.Timed{Piece: cluster.Piece{Key: cluster.SegmentKey(s.ID), Bytes: s.Bytes}, At: s.MaxTime})
		if len(part) == cap(part) {
			f(part)
			part = part[:0]
		}
		return nil
	})
	if err == nil {
		f(part)
	}
	return err
}

func ownerOf(v *cluster.View, s cluster.Share, said map[millstream.NodeID]rpc.Status) ownerView {
	out := ownerView{ID: string(s.Node.Node), PlacementID: s.ID, State: ownerState(v, s.Node), Weight: vCPU(s.MilliCPU), Expected: s.Expected, Actual: s.Actual, Segments: s.Segments, Bytes: s.Bytes}
	if st, ok := said[s.Node.Node]; ok {
		out.CachedBytes, out.WarmPercent = &st.Cached, st.Warm
	}
	return out
}

func vCPU(milli int) float64 { return float64(milli) / 1000 }

func ownerState(v *cluster.View, n cluster.Node) string {
	m, _ := v.Member(n.Node)
	return v.State(m)
}

func heatmapOf(g cluster.Grid, nodes int) heatmapView {
	out := heatmapView{BucketSeconds: float64(uint64(g.Width)) / 1e9, Buckets: g.Columns, Rows: make([]heatRowView, nodes)}
	if g.Columns > 0 {
		out.Start, out.End = stampOf(g.Start), stampOf(g.Start+g.Width*int64(g.Columns))
	}
	return out
}

func heatRow(id string, cells []cluster.Cell) heatRowView {
	out := heatRowView{ID: id, Segments: make([]int, len(cells)), Bytes: make([]int64, len(cells))}
	for i, c := range cells {
		out.Segments[i], out.Bytes[i] = c.Segments, c.Bytes
	}
	return out
}

func (a *API) segmentRanking(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	g, stream, err := a.Placed.LiveSegment(r.Context(), who(r).Org, millstream.SegmentID(id))
	if err != nil {
		return err
	}
	view := a.View()
	p := view.Placement()
	out := rankingView{
		ID: id, Signal: g.Signal.String(), Stream: stream, Start: stampOf(g.MinTime), End: stampOf(g.MaxTime), Rows: g.Rows, Bytes: g.Data.Length + g.Index.Length, Level: g.Level,
		PlacementVersion: p.Version(), Ranking: make([]rankView, len(p.Nodes())),
	}
	for i, n := range p.Rank(cluster.SegmentKey(g.ID), len(p.Nodes())) {
		out.Ranking[i] = rankView{Rank: i + 1, ID: string(n.Node.Node), PlacementID: n.ID, State: ownerState(view, n.Node), Weight: vCPU(n.MilliCPU), Cost: n.PerCPU()}
	}
	return reply(w, http.StatusOK, out)
}
