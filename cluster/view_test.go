package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func member(id string, silence time.Duration, roles ...string) millstream.Member {
	return millstream.Member{ID: millstream.NodeID(id), Addr: id + ":5082", Roles: roles, HeartbeatAt: at.Add(-silence), MilliCPU: 1000}
}

func ids(members []millstream.Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = string(m.ID)
	}
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestViewTellsWhoIsLive(t *testing.T) {
	t.Parallel()
	gone := member("d-drains", 0, Intake)
	gone.Draining = true
	v := NewView([]millstream.Member{
		member("f-all", time.Second, Standalone), member("b-late", 15*time.Second, Intake), member("a-new", 0, Intake, Querier), gone,
		member("c-silent", 15*time.Second+1, Intake, Compactor), member("e-ahead", -time.Hour, Alert),
	}, at, Timeouts{})
	equal(t, "members", ids(v.Members()), []string{"a-new", "b-late", "c-silent", "d-drains", "e-ahead", "f-all"})
	for role, want := range map[string][]string{
		Intake: {"a-new", "b-late", "f-all"}, Querier: {"a-new", "f-all"}, Compactor: {"f-all"}, Alert: {"e-ahead", "f-all"}, Router: {"f-all"}, Standalone: {"f-all"}, "baker": {},
	} {
		equal(t, role, ids(v.Live(role)), want)
		if v.Count(role) != len(want) {
			t.Errorf("%s: %d, want %d", role, v.Count(role), len(want))
		}
		equal(t, "all ranks of "+role, sorted(ids(v.Rank(role, UnitKey("x"), 99))), want)
	}
	for id, want := range map[string]string{"a-new": Up, "c-silent": Silent, "d-drains": Draining} {
		m, ok := v.Member(millstream.NodeID(id))
		if !ok || v.State(m) != want {
			t.Errorf("%s: %v %s, want %s", id, ok, v.State(m), want)
		}
	}
	if m, _ := v.Member("c-silent"); m.HeartbeatAge != 15*time.Second+1 {
		t.Errorf("the silent one's age is %v", m.HeartbeatAge)
	}
	if _, ok := v.Member("nobody"); ok {
		t.Error("found a member that is none")
	}
	if _, ok := v.Owner("baker", UnitKey("x")); ok {
		t.Error("a role that nobody has, has an owner")
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }

// crowd is n members of a role.
func crowd(n int, role string) []millstream.Member {
	out := make([]millstream.Member, n)
	for i := range out {
		out[i] = member(fmt.Sprintf("node-%03d", i), 0, role)
	}
	return out
}

// The order must be the same on every release: a rolling upgrade would else send one stream to two intakes.
func TestRankIsAsItWas(t *testing.T) {
	t.Parallel()
	v := NewView(crowd(5, Intake), at, Timeouts{})
	key := StreamKey("0b0e0dd4-7a4c-4d3a-9a52-0c0f6f0a1b2c", millstream.Logs, "app")
	equal(t, "rank", ids(v.Rank(Intake, key, 5)), []string{"node-000", "node-004", "node-001", "node-002", "node-003"})
	if key == StreamKey("0b0e0dd4-7a4c-4d3a-9a52-0c0f6f0a1b2c", millstream.Traces, "app") {
		t.Error("streams of two signals have one key")
	}
}

func TestRankMovesOnlyWhatMust(t *testing.T) {
	t.Parallel()
	const n, units = 12, 1000
	members := crowd(n, Intake)
	whole := NewView(members, at, Timeouts{})
	owned := map[millstream.NodeID]int{}
	for gone := range members {
		part := NewView(slices.Delete(slices.Clone(members), gone, gone+1), at, Timeouts{})
		for u := range units {
			key := UnitKey(fmt.Sprint("unit-", u))
			before, after := ids(whole.Rank(Intake, key, n)), ids(part.Rank(Intake, key, n))
			if i := slices.Index(before, string(members[gone].ID)); !slices.Equal(slices.Delete(before, i, i+1), after) {
				t.Fatalf("without %s unit %d is ranked %v, was %v", members[gone].ID, u, after, before)
			}
			few := ids(part.Rank(Intake, key, 3))
			equal(t, "three of all", few, after[:3])
			if owner, ok := part.Owner(Intake, key); !ok || string(owner.ID) != after[0] {
				t.Fatalf("owner %s, first in rank %s", owner.ID, after[0])
			}
			owned[millstream.NodeID(after[0])]++
		}
	}
	for id, got := range owned { // the same units twelve times, so the deviation is that of one time: 11 %
		if want := float64(units); float64(got) < want*0.6 || float64(got) > want*1.4 {
			t.Errorf("%s owns %d, expected about %.0f", id, got, want)
		}
	}
}
