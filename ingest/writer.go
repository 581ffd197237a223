// Package ingest takes batches in and never loses one that it acknowledged. A Router gives every part of a request its batch id; a Writer logs it, makes it
// visible, and later publishes it as segments. DESIGN.md tells the protocol and what each rule is for.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/store"
)

// Sentinels that callers branch on.
var (
	// ErrStale: rows above the asked position are published and no longer buffered; take a new snapshot.
	ErrStale = errors.New("stale snapshot")
	// ErrNotReady: the unflushed rows cannot be told at the moment; an answer without them is partial.
	ErrNotReady = errors.New("unflushed rows are not ready")
	// ErrFenced: a newer incarnation of the node holds the WAL; this process writes nothing any more.
	ErrFenced = errors.New("fenced by a newer incarnation")
)

// The parts of the catalog that a Writer needs; *store.Store fits all.
type (
	ensurer interface {
		EnsureStream(ctx context.Context, k millstream.StreamKey) (store.Stream, error)
	}
	streamCatalog interface {
		ensurer
		ListStreams(ctx context.Context, most int) ([]store.Stream, error)
		RegisterFields(ctx context.Context, id millstream.StreamID, fields []millstream.Field) (millstream.Schema, error)
	}
	publisher interface {
		TakeWAL(ctx context.Context, t store.WALTake) (millstream.LSN, error)
		Restore(ctx context.Context, t store.WALTake) error
		Publish(ctx context.Context, f millstream.Flush) (store.Outcome, millstream.LSN, error)
	}
	metadataCatalog interface {
		UpsertMetadata(ctx context.Context, org millstream.OrgID, ms []millstream.Metadata) error
	}
	catalog interface {
		streamCatalog
		publisher
		metadataCatalog
	}
)

// WriterConfig says what a Writer works with; zero sizes and times mean the documented defaults.
type WriterConfig struct {
	Node        millstream.NodeID
	Addr        string
	Incarnation func() int64 // of this process; called once Run begins
	Catalog     catalog
	Bucket      blob.Bucket
	WAL         wal.Options // Dir is the WAL's directory; ID, Log and Registerer are filled in
	BufferDir   string      // for what is sealed but not published; emptied at start

	BufferSize    int64         // bytes of one stream, 256 MiB: half of it starts a flush, above it writes are refused
	BufferTotal   int64         // bytes of all streams, 512 MiB; likewise
	FlushInterval time.Duration // 30 s
	MaxFields     int           // fields of a stream that sets no limit of its own, 2,000

	// OnConfirm is called when another history of the database is about to be trusted, before anything is published to it.
	OnConfirm func(ctx context.Context) error

	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // the node's own clock
	// Clock is the one by which the log dates its frames, and by which batch ids and files of the log are forgotten. It must agree over restarts, so it is that of the
	// database; nil: Now.
	Clock func() time.Time
}

func (c WriterConfig) withDefaults() WriterConfig {
	if c.BufferSize == 0 {
		c.BufferSize = 256 << 20
	}
	if c.BufferTotal == 0 {
		c.BufferTotal = 512 << 20
	}
	if c.FlushInterval == 0 {
		c.FlushInterval = 30 * time.Second
	}
	if c.MaxFields == 0 {
		c.MaxFields = 2000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clock == nil {
		c.Clock = c.Now
	}
	if c.Incarnation == nil {
		c.Incarnation = func() int64 { return 1 }
	}
	return c
}

// phase is the state of a Writer. It only grows.
type phase uint8

const (
	starting phase = iota // replaying: takes nothing, tells nothing
	running
	draining // takes nothing new; repeats of what it has are still answered
	fenced
)

// Writer is the write path of one node: log, buffer, flush, publish. Make it with NewWriter, run it with Run.
type Writer struct {
	cfg         WriterConfig
	log         *slog.Logger
	metrics     instruments
	mutant      mutant
	incarnation int64 // set with id
	dir         *wal.Dir
	id          millstream.WALID
	namespace   uuid.UUID // of the segment ids: the WAL's id

	streams *streams
	ids     *dedupe
	room    *room
	tails   tails

	wal      *wal.Log
	insertMu sync.Mutex // held while rows enter the open range, and to freeze it; taken before mu

	mu       sync.RWMutex // guards what follows; never held over I/O
	phase    phase
	ranges   []*bufferRange // in LSN order; the last is open
	trash    []*bufferRange // published ranges that left ranges early but may still be read
	position millstream.LSN // the last LSN known to be published
	system   string         // the database history that was last confirmed
	doubt    string         // a history seen since, "" if none: publishing waits until it is confirmed
	verify   bool           // a heartbeat saw a lower position: ask
	recent   recent
	holds    map[*hold]uint64
	epoch    uint64 // counts publishes

	flushMu  sync.Mutex // one flush at a time
	kick     chan struct{}
	relist   chan struct{} // the streams have changed
	seals    chan *sealJob
	workers  sync.WaitGroup
	inFlight sync.WaitGroup    // Writes past the phase check
	attempt  atomic.Int64      // of uploads, part of the object keys
	hook     func(step string) // for tests: called between the steps of a flush
	sealRows int               // see there; tests shorten this and what follows
	grace    time.Duration     // see bufferGrace
	logGrace time.Duration     // see walGrace
}

// mutant switches single protections off, to show that the tests notice.
type mutant struct {
	ackBeforeSync, noFence, dropBeforeVisible, retireEarly, newBatchID, uploadErrorIsSuccess bool
	unknownIsRefused, unknownForgotten, noPin, noRestore                                     bool // of a Router
}

// NewWriter makes a Writer; nothing is opened before Run.
func NewWriter(cfg WriterConfig) *Writer {
	cfg = cfg.withDefaults()
	w := &Writer{
		cfg: cfg, log: cfg.Log.With("component", "intake"), metrics: newInstruments(cfg.Registerer),
		streams: newStreams(cfg.Catalog, cfg.MaxFields, cfg.Now), ids: newDedupe(), room: newRoom(cfg.BufferSize, cfg.BufferTotal), tails: newTails(),
		holds: map[*hold]uint64{}, sealRows: sealRows, grace: bufferGrace, logGrace: walGrace, kick: make(chan struct{}, 1), relist: make(chan struct{}, 1), seals: make(chan *sealJob, 1024),
	}
	w.recent = recent{limit: cfg.BufferTotal / recentShare, streams: map[millstream.StreamID]*recentBatches{}}
	w.cfg.WAL.Log, w.cfg.WAL.Registerer, w.cfg.WAL.Now = cfg.Log, cfg.Registerer, cfg.Clock
	return w
}

// WAL is the id of this node's WAL; empty before Run has opened it.
func (w *Writer) WAL() millstream.WALID {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.id
}

// Run takes the WAL, replays it, calls ready, and flushes until ctx ends; then it publishes what is left, and returns an error if it could not. It returns early
// only if it cannot go on: another process has the directory, or the registry refuses the WAL. Fenced by a newer incarnation it stays and takes nothing.
func (w *Writer) Run(ctx context.Context, ready func()) (err error) {
	if err := w.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.take(ctx); err != nil {
		return stopped(ctx, err)
	}
	stopSealing := w.startSealing()
	defer stopSealing()
	began := time.Now()
	if err := w.replay(ctx); err != nil {
		return stopped(ctx, fmt.Errorf("replay the WAL: %w", err))
	}
	if err := w.wal.Start(w.position); err != nil {
		return err
	}
	w.readList(ctx)
	stopListing := w.startListing(ctx)
	defer stopListing()
	w.setPhase(running)
	w.log.Info("intake is ready", "wal", w.id, "position", w.position, "last", w.wal.Last(), "replayed_in", time.Since(began))
	ready()
	if err = w.flushLoop(ctx); errors.Is(err, ErrFenced) {
		w.sitOut(ctx)
		err = nil
	}
	return errors.Join(err, w.drain(context.WithoutCancel(ctx)))
}

// stopped makes the end of ctx no error.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (w *Writer) open() error {
	incarnation := w.cfg.Incarnation()
	dir, err := wal.OpenDir(w.cfg.WAL.Dir)
	if err != nil {
		return err
	}
	w.dir = dir
	w.cfg.WAL.ID = dir.ID
	w.mu.Lock()
	w.id, w.incarnation = dir.ID, incarnation
	w.mu.Unlock()
	w.namespace, err = uuid.Parse(string(dir.ID))
	if err == nil {
		err = errors.Join(os.RemoveAll(w.cfg.BufferDir), os.MkdirAll(w.cfg.BufferDir, 0o700))
	}
	if err == nil {
		w.wal, err = wal.Open(w.cfg.WAL)
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	return nil
}

func (w *Writer) close() error {
	err := w.wal.Close()
	w.tails.end()
	w.mu.Lock()
	ranges := append(w.ranges, w.trash...)
	w.ranges, w.trash = nil, nil
	w.mu.Unlock()
	for _, r := range ranges {
		r.discard()
	}
	return errors.Join(err, w.dir.Close())
}

// take registers this process as the WAL's holder, and leaves the marker that lets the WAL be found if the database forgets it.
func (w *Writer) take(ctx context.Context) error {
	var position millstream.LSN
	err := w.retry(ctx, "take the WAL", func() (err error) {
		position, err = w.cfg.Catalog.TakeWAL(ctx, w.walTake())
		return err
	})
	if err != nil {
		return err
	}
	if err := w.retry(ctx, "write the WAL's marker", func() error { return w.mark(ctx) }); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = position
	w.ranges = []*bufferRange{newRange(position)}
	return nil
}

func (w *Writer) walTake() store.WALTake {
	return store.WALTake{
		ID: w.id, Node: w.cfg.Node, Incarnation: w.incarnation, Addr: w.cfg.Addr, Identity: w.dir.Identity, First: w.wal.First(), Last: w.wal.Last(),
	}
}

// Check says why writes are refused at the moment, if they are; the limits of the buffer, which a flush lifts, do not count.
func (w *Writer) Check(context.Context) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.inFlight.Done()
	return w.wal.Full()
}

func (w *Writer) setPhase(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = max(w.phase, p)
}

func (w *Writer) phaseNow() phase {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.phase
}

// drain ends the writer's life in order: no new writes, the log's last group, the last publish.
func (w *Writer) drain(ctx context.Context) error {
	w.setPhase(draining)
	w.inFlight.Wait()
	if err := w.wal.Close(); err != nil {
		return fmt.Errorf("close the WAL: %w", err)
	}
	if w.phaseNow() == fenced {
		if w.unpublished() {
			return w.kept(ErrFenced)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastPublish)
	defer cancel()
	err := w.flushAll(ctx)
	if err == nil {
		err = w.publishClean(ctx)
	}
	if err != nil {
		return w.kept(err)
	}
	return nil
}

// lastPublish bounds the publish of a stopping node, within the grace that a service has.
const lastPublish = 20 * time.Second

func (w *Writer) startSealing() (stop func()) {
	for range min(max(runtime.GOMAXPROCS(0), 1), 4) {
		w.workers.Add(1)
		go w.sealLoop()
	}
	return func() {
		close(w.seals)
		w.workers.Wait()
	}
}
