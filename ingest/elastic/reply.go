package elastic

import (
	"strconv"
	"time"

	"github.com/millstream/millstream"
)

// Reply is the body that answers the call: an item per action, in order. took is how long the call took.
func (b *Bulk) Reply(took time.Duration) []byte {
	out := make([]byte, 0, 160*len(b.items)+len(b.ids)+64)
	out = strconv.AppendInt(append(out, `{"took":`...), took.Milliseconds(), 10)
	out = strconv.AppendBool(append(out, `,"errors":`...), b.Rejected > 0)
	out = append(out, `,"items":[`...)
	start := int32(0)
	for n := range b.items {
		if n > 0 {
			out = append(out, ',')
		}
		it := &b.items[n]
		out = b.appendItem(out, it, b.ids[start:it.id], n)
		start = it.id
	}
	return append(out, "]}"...)
}

func (b *Bulk) appendItem(out []byte, it *item, id []byte, n int) []byte {
	out = append(append(append(out, `{"`...), opNames[it.op]...), `":{"_index":`...)
	out = millstream.AppendJSONString(out, it.target.index)
	out = append(out, `,"_id":`...)
	if len(id) > 0 {
		out = millstream.AppendJSONString(out, string(id))
	} else { // some name, because clients expect one; records are not found by it
		out = strconv.AppendInt(append(out, '"'), b.now.UnixNano(), 36)
		out = append(strconv.AppendInt(append(out, '-'), int64(n), 36), '"')
	}
	if it.fault == nil {
		out = append(out, `,"_version":1,"result":"created","_shards":{"total":1,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1,"status":201}}`...)
		return out
	}
	out = append(out, `,"status":400,"error":`...)
	out = appendFault(out, it.fault.kind, it.fault.reason)
	return append(out, "}}"...)
}

func appendFault(out []byte, fault, reason string) []byte {
	out = millstream.AppendJSONString(append(out, `{"type":`...), fault)
	out = millstream.AppendJSONString(append(out, `,"reason":`...), reason)
	return append(out, '}')
}

// ErrorBody is the body of a call that failed as a whole, in Elasticsearch's shape.
func ErrorBody(status int, err error) []byte {
	fault := faultOf(millstream.KindOf(err))
	out := appendFault([]byte(`{"error":{"root_cause":[`), fault, millstream.Message(err))
	out = millstream.AppendJSONString(append(out, `],"type":`...), fault)
	out = millstream.AppendJSONString(append(out, `,"reason":`...), millstream.Message(err))
	out = strconv.AppendInt(append(out, `},"status":`...), int64(status), 10)
	return append(out, '}')
}

// faultOf names a kind as Elasticsearch would.
func faultOf(k millstream.Kind) string {
	switch k {
	case millstream.Invalid, millstream.Unsupported, millstream.Unprocessable:
		return faultArgument
	case millstream.Unauthenticated, millstream.Forbidden:
		return "security_exception"
	case millstream.NotFound:
		return "resource_not_found_exception"
	case millstream.Conflict:
		return "version_conflict_engine_exception"
	case millstream.TooLarge:
		return "content_too_long_exception"
	case millstream.RateLimited:
		return "es_rejected_execution_exception"
	case millstream.Unavailable, millstream.Canceled:
		return "cluster_block_exception"
	case millstream.Timeout:
		return "process_cluster_event_timeout_exception"
	}
	return "exception"
}
