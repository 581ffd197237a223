package mstest

import "github.com/millstream/millstream/internal/netfault"

// Link is a TCP connection's way to a server that a test can break, and Fault what breaks it.
type (
	Link  = netfault.Link
	Fault = netfault.Fault
)

// The faults of a Link.
const (
	Whole      = netfault.Whole
	Cut        = netfault.Cut
	Blackhole  = netfault.Blackhole
	NoReplies  = netfault.NoReplies
	NoRequests = netfault.NoRequests
)
