package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// tail is a live tail through a router.
type tail struct {
	mu      sync.Mutex
	seen    map[int]int // how often a number came
	dropped int
	gaps    []string
	done    chan struct{} // closed when it has ended
}

func startTail(t *testing.T, n *mstest.Node, stream string) *tail {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/api/v1/query/tail?stream="+stream, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != ": open" {
		t.Fatalf("status %d: %s", resp.StatusCode, lines.Text())
	}
	x := &tail{seen: map[int]int{}, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		event := ""
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				x.take(t, event, data)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-x.done
		_ = resp.Body.Close()
	})
	return x
}

func (x *tail) take(t *testing.T, event, data string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	switch event {
	case "records":
		var list []struct{ Seq int }
		err = json.Unmarshal([]byte(data), &list)
		for _, r := range list {
			x.seen[r.Seq]++
		}
	case "dropped":
		var d struct{ Dropped int }
		err = json.Unmarshal([]byte(data), &d)
		x.dropped += d.Dropped
	case "gap":
		x.gaps = append(x.gaps, data)
	}
	if err != nil {
		t.Errorf("%s %s: %v", event, data, err)
	}
}

// ended says whether nothing comes any more, as the client sees it.
func (x *tail) ended() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// has says whether n records were seen.
func (x *tail) has(n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.seen) >= n
}

// told waits until n records were seen, each once, or counted as dropped.
func (x *tail) told(t *testing.T, n int) {
	t.Helper()
	state := func() (seen, dropped int, twice bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, times := range x.seen {
			twice = twice || times > 1
		}
		return len(x.seen), x.dropped, twice
	}
	mstest.WaitFor(t, time.Minute, "the tail has told everything", func() bool {
		seen, dropped, _ := state()
		return seen+dropped >= n
	})
	if seen, dropped, twice := state(); seen+dropped != n || twice {
		t.Fatalf("%d records seen, twice %t, %d dropped, of %d", seen, twice, dropped, n)
	}
}

// A live tail has the records of its stream whichever intake takes them. Those of nodes that come and go in order are seen or counted; a node that dies is told.
func TestTailFollowsAllIntakes(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router", "intake*2", "querier")
	r := c.Router()
	send(t, r, "app", 0, 1)
	total := 1
	x := startTail(t, r, "app")
	write := func() {
		t.Helper()
		for range 20 {
			send(t, r, "app", total, 1)
			total++
			time.Sleep(5 * time.Millisecond)
		}
		x.told(t, total-1)
	}
	write()
	for _, n := range c.Of("intake") { // one of them has the stream
		n.End()
		write()
		if !n.Ended(time.Minute) {
			t.Fatalf("%s did not end:\n%s", n.ID, n.Log())
		}
		n.Run()
		c.Members(r, time.Minute, c.Nodes...)
		write()
	}
	third := c.Add("intake")
	third.Run()
	c.Members(r, time.Minute, c.Nodes...)
	write()
	x.mu.Lock()
	if len(x.gaps) > 0 {
		t.Errorf("gaps without a fault: %q", x.gaps)
	}
	x.mu.Unlock()
	third.Kill()
	mstest.WaitFor(t, time.Minute, "the tail tells that a node is lost", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.gaps) > 0 && strings.Contains(x.gaps[0], third.ID)
	})
}
