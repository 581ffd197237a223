// Package rpc is how the nodes of a cluster talk: one gRPC server a node, one connection to each peer, and errors that mean the same on both sides. A Client
// has the methods of what it stands for, so a caller does not see whether it calls this process or another. DESIGN.md tells why it is as it is.
package rpc

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream/ingest/wal"
)

// The protocols that this release speaks. Protocol grows when an older node would misread a message; OldestProtocol follows one release later, so that the
// nodes of two releases in a row understand each other while a cluster is upgraded node by node. What leaves are asked and answer is not in it: that travels
// between nodes with the same form of it only, which package query sees to.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// Keys of the metadata that calls carry.
const (
	keyToken    = "authorization"
	keyProtocol = "millstream-protocol" // oldest-newest, or one number for both
	keyNode     = "millstream-node"     // who calls, for logs
	keyWAL      = "millstream-wal"      // which WAL a write is meant for; only of writes
	bearer      = "Bearer "
)

const (
	// maxMessage is a batch of the largest size that the log takes and what travels beside it. So a router refuses for size nothing that a node of its own would take.
	maxMessage = wal.MaxPayload + 1<<20
	// window is how many bytes of one call may be on the way or unread. It bounds what a slow reader costs both sides.
	window = 512 << 10
	// windowAll is that of all calls of a connection; it follows what arrives, not what is read, so one slow reader does not hold up the others.
	windowAll = 8 << 20
	// socketBuffer is how much is read from and written to a connection at once.
	socketBuffer = 128 << 10
)

// Connections are given up after keepaliveTime and keepaliveTimeout without a sign of life. gRPC sends no pings of its own more often than every 10 s: a client
// that waits for an answer asks for a sign itself, see watch.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
)

// greeting is the metadata that this node's calls carry.
func greeting(token, node string) map[string]string {
	md := map[string]string{keyProtocol: fmt.Sprintf("%d-%d", OldestProtocol, Protocol), keyNode: node}
	if token != "" {
		md[keyToken] = bearer + token
	}
	return md
}

// checkProtocol refuses a peer that shares no protocol with this node. It gets what the peer sent and what this node speaks.
func checkProtocol(sent string, oldest, newest int) error {
	from, to, ok := strings.Cut(sent, "-")
	if !ok {
		to = from
	}
	lo, err := strconv.Atoi(from)
	hi, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || lo > hi {
		return status.Errorf(codes.FailedPrecondition, "the calling node names no protocol (%q): this node speaks %s; run releases that follow each other", sent, span(oldest, newest))
	}
	if hi < oldest || lo > newest {
		return status.Errorf(codes.FailedPrecondition, "the calling node speaks protocol %s and this node %s: upgrade one release at a time", span(lo, hi), span(oldest, newest))
	}
	return nil
}

func span(lo, hi int) string {
	if lo == hi {
		return strconv.Itoa(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// checkToken compares in a time that does not depend on where the tokens differ.
func checkToken(md metadata.MD, want [sha256.Size]byte) error {
	sent := md.Get(keyToken)
	if len(sent) != 1 || !strings.HasPrefix(sent[0], bearer) {
		return status.Error(codes.Unauthenticated, "the call carries no token: [cluster].internal_token must be set, and be the same, on all nodes")
	}
	got := sha256.Sum256([]byte(sent[0][len(bearer):]))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return status.Error(codes.Unauthenticated, "the token is not this cluster's: [cluster].internal_token must be the same on all nodes")
	}
	return nil
}
