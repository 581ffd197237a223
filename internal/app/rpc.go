package app

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/rpc"
)

// newRPC makes what other nodes call, and the connections by which this one calls them.
func (p *parts) newRPC(closers *closers) {
	c := &p.cfg.Cluster
	self := millstream.NodeID(p.cfg.Node.ID)
	p.peers = rpc.NewClients(rpc.ClientConfig{Node: self, Token: c.InternalToken, Log: p.log, Registerer: p.registry})
	closers.add(func() error { p.peers.Close(); return nil })
	p.rpc = &rpc.Server{
		Token: c.InternalToken, Trusted: c.TrustedNetwork, Node: self, Version: p.Version,
		Drain: p.drainSelf, Status: p.status, Log: p.log, Registerer: p.registry,
	}
	if p.writer != nil { // an interface that holds a nil pointer is not nil
		p.rpc.Intake, p.rpc.Rows = p.writer, p.writer
	}
}

// serveRPC answers other nodes until ctx ends, then finishes the calls it has.
func (p *parts) serveRPC(ctx context.Context, ready func()) error {
	srv := p.rpc.GRPC()
	defer context.AfterFunc(ctx, p.rpc.Leave)()
	return p.serveCalls(ctx, ready, "[rpc].listen", p.cfg.RPC.Listen, srv)
}

// drainSelf begins the node's end, as a signal would; it returns at once.
func (p *parts) drainSelf(context.Context) error {
	p.log.Info("draining as asked over the API")
	p.drain()
	return nil
}

// status is what the node tells others of itself.
func (p *parts) status() rpc.Status {
	s := rpc.Status{
		Incarnation: p.membership.Incarnation(), Started: p.began, Draining: p.membership.Draining(),
		Fenced: p.membership.Fenced(), CPU: p.load.cpus(time.Now()), Memory: resident(),
	}
	p.count(&s)
	if p.peers != nil {
		s.Traffic = p.peers.Traffic()
	}
	if p.writer != nil {
		s.Buffered = p.writer.Buffered()
	}
	if p.engine != nil {
		s.Queries = p.engine.Busy()
	}
	if p.warmer != nil {
		s.Warm = p.warmer.Share().Percent()
	}
	return s
}

// load is the processor time that the process uses, as a mean since it was last asked for.
type load struct {
	mu   sync.Mutex
	at   time.Time
	used time.Duration
	last float64
}

// cpus is the number of CPUs in use. Asked again within a second it gives the same.
func (l *load) cpus(now time.Time) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	l.mu.Lock()
	defer l.mu.Unlock()
	if since := now.Sub(l.at); since >= time.Second {
		if !l.at.IsZero() {
			l.last = float64(used-l.used) / float64(since)
		}
		l.at, l.used = now, used
	}
	return l.last
}

// resident is the process's memory in bytes; 0 if the system does not tell.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// count adds to a status what the node's own metrics count.
func (p *parts) count(s *rpc.Status) {
	families, err := p.registry.Gather()
	if err != nil && len(families) == 0 {
		return
	}
	total, level := map[string]uint64{}, map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			total[f.GetName()] += uint64(m.GetCounter().GetValue())
			level[f.GetName()] += m.GetGauge().GetValue()
		}
	}
	s.Rows = total["millstream_ingest_rows_total"]
	s.Stored = total["millstream_ingest_uploaded_bytes_total"] + total["millstream_compactor_output_bytes_total"]
	s.Fetched = total["millstream_cache_fetched_bytes_total"] + total["millstream_compactor_input_bytes_total"]
	s.Cached = int64(level["millstream_cache_size_bytes"])
	s.MemoryTotal = int64(config.Memory())
}
