package ingest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// A node that was started again takes writes of every stream that there is, seen by it or not, while the database is away.
func TestARestartedNodeKnowsTheStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mine, others, deleted := s.stream("mine"), s.stream("others"), s.stream("deleted")
	s.start()
	s.append(rows("mine", 0, 10))
	s.kill()
	s.start()
	s.model.deleteStream(deleted)
	s.w.Forget(deleted) // as the announcement has it
	s.model.setDown(true)
	s.append(rows("mine", 10, 10))
	s.append(rows("others", 0, 5))
	for _, name := range []string{"deleted", "never made"} {
		err := s.w.Append(t.Context(), rows(name, 0, 1))
		if millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(err.Error(), name) {
			t.Errorf("a stream that is not there: %v", err)
		}
	}
	s.model.setDown(false)
	s.flush()
	s.want(mine, 20)
	s.want(others, 5)
}

// The list follows the streams that other nodes make.
func TestTheListIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start()
	st := store.Stream{ID: "018f0000-0000-7000-8000-000000000001", Key: millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "late"}}
	before := s.w.streams.listed.epoch
	s.w.streams.list([]store.Stream{st}, before)
	if !s.w.streams.isListed(st.Key) {
		t.Fatal("not listed")
	}
	s.w.streams.forget(st.ID)
	s.w.streams.list([]store.Stream{st}, before) // was read before it was deleted
	if s.w.streams.isListed(st.Key) {
		t.Error("a deleted stream is back")
	}
	id := s.stream("made elsewhere")
	s.w.readList(t.Context())
	s.model.setDown(true)
	s.append(rows("made elsewhere", 0, 3))
	s.model.setDown(false)
	s.want(id, 3)
}

// A database that hangs costs the first write of a listed stream less than a router waits for it.
func TestAListedStreamWaitsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		h.asked.Store(1) // it answers no more
		s := newStreams(h, 100, time.Now)
		k := millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "app"}
		s.list([]store.Stream{{ID: "one", Key: k, MaxFields: 7}}, 0)
		for want := listedPatience; want >= 0; want -= listedPatience {
			begin := time.Now()
			st, err := s.resolve(t.Context(), k)
			if err != nil || st.id != "one" || st.max != 7 || time.Since(begin) > max(want, refreshPatience) {
				t.Fatalf("%+v, %v after %s", st, err, time.Since(begin))
			}
		}
		time.Sleep(catalogTimeout) // the look-ups end
	})
}
