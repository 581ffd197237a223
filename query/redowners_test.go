package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// spreadSpans flushes spans in batches of at most n, and keeps the last ones unflushed.
func (f *fleet) spreadSpans(all []span, n int) {
	for len(all) > 0 {
		k := min(n, len(all))
		f.append(millstream.Traces, "default", traceBatch(all[:k]))
		if all = all[k:]; len(all) > 0 {
			f.flush()
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServicesAndFieldsOfOwners(t *testing.T) {
	f := newFleet(t)
	f.spreadSpans(traffic(rand.New(rand.NewPCG(3, 3)), 200), 77)
	one := f.alone()
	part := millstream.TimeRange{Start: epoch + 31e9, End: epoch + 1000e9}
	services := func(n *node, r millstream.TimeRange, edges bool) (string, *query.Answer) {
		t.Helper()
		found, err := n.Services(t.Context(), query.Request{Org: org, Range: r}, "", edges)
		if err != nil {
			t.Fatal(err)
		}
		return asJSON(t, found.Services) + asJSON(t, found.Edges), found.Answer
	}
	fields := func(n *node, r millstream.TimeRange) (string, *query.Answer) {
		t.Helper()
		found, err := n.Fields(t.Context(), query.Selection{Org: org, Signal: millstream.Traces, Stream: "default", Range: r}, query.FieldSearch{Names: []string{"service", "duration_ns"}, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		return asJSON(t, found.Fields) + fmt.Sprint(found.Rows, found.Total), found.Answer
	}
	for _, ruin := range []string{"all are well", "again", "nodes fail at random"} {
		if ruin == "nodes fail at random" {
			f.ruin, f.owners.Silence = randomly(8), 150*time.Millisecond
		}
		for _, r := range []millstream.TimeRange{day, part} {
			for _, edges := range []bool{false, true} {
				want, alone := services(one, r, edges)
				got, answer := services(f.node, r, edges)
				if got != want || len(want) < 1000 {
					t.Errorf("%s: services, edges %v:\n got %s\nwant %s", ruin, edges, got, want)
				}
				if ruin == "all are well" && answer.Stats.ScannedBytes != alone.Stats.ScannedBytes {
					t.Errorf("services, edges %v: %d bytes were scanned, alone %d", edges, answer.Stats.ScannedBytes, alone.Stats.ScannedBytes)
				}
			}
			want, _ := fields(one, r)
			got, answer := fields(f.node, r)
			if got != want || len(want) < 1000 {
				t.Errorf("%s: fields:\n got %s\nwant %s", ruin, got, want)
			}
			if ruin == "all are well" && (answer.Stats.Nodes != 3 || len(answer.Stats.Parts) != 3) {
				t.Errorf("fields: statistics %+v", answer.Stats)
			}
		}
	}
	for _, s := range f.segments { // until nodes failed, nobody but its owner had read a segment
		if owner := owners(s.ID)[0].ID; !f.caches[owner].Has(s) {
			t.Errorf("segment %s was not read by its owner %s", s.ID, owner)
		}
	}
}

// Summaries of segments are kept by their owners: a second request reads nothing there.
func TestOwnersKeepSummaries(t *testing.T) {
	f := newFleet(t)
	f.spreadSpans(traffic(rand.New(rand.NewPCG(3, 3)), 100), 50)
	read := func() query.Stats {
		found, err := f.Services(t.Context(), query.Request{Org: org, Range: day}, "", true)
		if err != nil {
			t.Fatal(err)
		}
		return found.Stats
	}
	first, again := read(), read()
	if len(first.Parts) != 3 || first.Segments.Scanned != len(f.segments) || first.ScannedBytes == 0 {
		t.Errorf("statistics of the first %+v", first)
	}
	if again.Segments.Scanned != 0 || again.ScannedBytes >= first.ScannedBytes/10 {
		t.Errorf("statistics of the second %+v, of the first %+v", again, first)
	}
	for _, s := range f.segments {
		for id, c := range f.caches {
			if own := owners(s.ID)[0].ID == id; c.Has(s) != own {
				t.Errorf("segment %s on node %s: cached %v, owned %v", s.ID, id, c.Has(s), own)
			}
		}
	}
}
