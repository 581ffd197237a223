package web

import (
	"context"
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

// BenchmarkShell is what a page costs the server until its script can begin: session, preferences, memberships, streams, HTML. The limit is 20 ms at the 95th
// percentile.
func BenchmarkShell(b *testing.B) {
	w := newWorld(b, false)
	for i := range 200 {
		_, err := w.store.EnsureStream(context.Background(), millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: fmt.Sprintf("s%03d", i)})
		must(b, err)
	}
	r := w.reader().signIn()
	for _, path := range []string{"/shop/logs", "/shop/dashboards", "/shop/streams", "/shop/access", "/settings", "/cluster/status"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if a := r.get(path); a.code != 200 {
					b.Fatal(a.code)
				}
			}
		})
	}
}
