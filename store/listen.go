package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Channels on which changes are announced. The payloads: organizations with new segments, comma-separated; the id of a stream; the id of a node; the id of an
// organization whose rights changed, empty for any. A message says that something may have changed, nothing more.
const (
	ChannelSegments = "segments"
	ChannelStreams  = "streams"
	ChannelNodes    = "nodes"
	ChannelAuth     = "auth"
)

const (
	relistenMin = 100 * time.Millisecond
	relistenMax = 5 * time.Second
)

// Listen calls f for every announcement until ctx ends, on a connection of its own that is made again when it breaks. What was announced meanwhile is lost, so
// after each (re)connection f is called once a channel with an empty payload: anything may have changed. f must not block.
func (s *Store) Listen(ctx context.Context, f func(channel, payload string)) error {
	wait := relistenMin
	for {
		connected, err := s.listenOnce(ctx, f)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !unreachable(err) {
			return fail(err, "listen for announcements")
		}
		if connected {
			wait = relistenMin
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, relistenMax)
		}
	}
}

func (s *Store) listenOnce(ctx context.Context, f func(channel, payload string)) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return false, err
	}
	defer func() {
		// The context may have ended; closing is bounded by its own.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	channels := []string{ChannelSegments, ChannelStreams, ChannelNodes, ChannelAuth}
	for _, c := range channels {
		if _, err := conn.Exec(ctx, "LISTEN "+c); err != nil {
			return false, err
		}
	}
	for _, c := range channels {
		f(c, "")
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		f(n.Channel, n.Payload)
	}
}
