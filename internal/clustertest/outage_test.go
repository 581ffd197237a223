package clustertest

import (
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// While the database is away, and hangs instead of refusing, writes without a key go on at once: with rights that are older than their five seconds, and to intakes that
// have been started since they saw the streams, or never saw them.
func TestWritesGoOnWhileTheDatabaseHangs(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router*2", "intake*2", "querier")
	routers, streams := c.Of("router"), []string{"a", "b", "c", "d", "e", "f"}
	for _, s := range streams {
		send(t, routers[0], s, 0, 10)
		send(t, routers[1], s, 10, 10)
	}
	for _, n := range c.Of("intake") {
		n.Stop()
		n.Run()
	}
	for _, r := range routers {
		mstest.WaitFor(t, time.Minute, "everybody is up to "+r.ID, func() bool { return len(r.Up()) == len(c.Nodes) })
	}
	c.EachDatabase(mstest.Blackhole)
	defer c.EachDatabase(mstest.Whole)
	time.Sleep(5 * time.Second) // rights are believed for so long
	for i, r := range routers {
		for _, s := range streams {
			began := time.Now()
			send(t, r, s, 20+10*i, 10)
			if took := time.Since(began); took > 4*time.Second { // the database is given five
				t.Errorf("a write to %s through %s took %s", s, r.ID, took)
			}
		}
	}
	c.EachDatabase(mstest.Whole)
	for _, s := range streams {
		mstest.WaitFor(t, time.Minute, "all records of "+s+" are there", func() bool {
			a, err := routers[0].TrySQL("SELECT count(*) AS n, count(DISTINCT seq) AS d FROM " + s)
			return err == nil && !a.Partial && len(a.Rows) == 1
		})
		complete(t, routers[0], s, 40)
	}
}
