package prometheus

import (
	"strings"

	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/millstream/millstream"
)

// requestV2 reads an io.prometheus.write.v2.Request: the symbols of the whole request first, since series may precede them on the wire.
func (d *decoder) requestV2(body []byte) error {
	m := message{p: body}
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		if num == 4 && typ == bytesType {
			d.symbols = append(d.symbols, m.text())
		} else {
			m.skip(num, typ)
		}
	}
	if m.bad {
		return errMalformed(protoV2)
	}
	if len(d.symbols) > 0 && d.symbols[0] != "" {
		return millstream.Errorf(millstream.Invalid, "the first symbol of a remote write 2.0 request must be the empty string")
	}
	m = message{p: body}
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		if num == 5 && typ == bytesType {
			if !d.seriesV2(m.bytes()) {
				return errMalformed(protoV2)
			}
		} else {
			m.skip(num, typ)
		}
	}
	return nil
}

// seriesV2 reads one TimeSeries; false means the message is malformed.
func (d *decoder) seriesV2(p []byte) bool {
	d.begin()
	m := message{p: p}
	var reason, created string
	var md millstream.Metadata
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == bytesType:
			var r string
			if d.labels, r = d.refs(d.labels, m.bytes(), &m.bad); r != "" {
				reason = r
			}
		case num == 2 && typ == bytesType:
			d.sampleV2(&m)
		case num == 3 && typ == bytesType:
			if r := d.histogramV2(m.bytes()); r != "" {
				reason = r
			}
		case num == 4 && typ == bytesType:
			d.exemplarV2(&m)
		case num == 5 && typ == bytesType:
			created = d.metadataV2(&m, &md)
		default:
			m.skip(num, typ)
		}
	}
	if m.bad {
		return false
	}
	if reason == "" {
		reason = created
	}
	field, r := d.series()
	if r == "" {
		if r = reason; r == "" {
			r = d.finish()
		}
	}
	if r != "" {
		d.reject(field, r)
		return true
	}
	d.describe(md)
	return true
}

// suffixes are those of the series that a metric of a type consists of.
var suffixes = map[string][]string{"histogram": {"_bucket", "_sum", "_count"}, "gaugehistogram": {"_bucket", "_gsum", "_gcount"}, "summary": {"_sum", "_count"}}

// describe keeps the metadata of the metric that the current series belongs to, under the metric's name as version 1.0 has it, not the series'.
func (d *decoder) describe(md millstream.Metadata) {
	if md.Type == "" && md.Help == "" && md.Unit == "" {
		return
	}
	for _, l := range d.labels {
		if l.Name == "__name__" {
			md.Name = l.Value
		}
	}
	for _, suffix := range suffixes[md.Type] {
		if name, ok := strings.CutSuffix(md.Name, suffix); ok && name != "" {
			md.Name = name
			break
		}
	}
	if n := len(d.out.Metadata); n > 0 && d.out.Metadata[n-1] == md {
		return // series of one metric follow each other
	}
	if !d.afford(len(md.Name) + len(md.Unit) + len(md.Help)) {
		return
	}
	d.out.Metadata = append(d.out.Metadata, cloneMetadata(md))
}

// cloneMetadata frees metadata from the request's memory, which it outlives.
func cloneMetadata(md millstream.Metadata) millstream.Metadata {
	return millstream.Metadata{Name: strings.Clone(md.Name), Type: md.Type, Unit: strings.Clone(md.Unit), Help: strings.Clone(md.Help)}
}

func (d *decoder) symbol(ref uint64) (string, bool) {
	if ref >= uint64(len(d.symbols)) {
		return "", false
	}
	return d.symbols[ref], true
}

// refs resolves a packed list of symbol references, name and value in turn.
func (d *decoder) refs(ls []millstream.Label, p []byte, bad *bool) ([]millstream.Label, string) {
	m := message{p: p}
	for len(m.p) > 0 && !m.bad {
		name, ok1 := d.symbol(m.varint())
		if len(m.p) == 0 {
			return ls, "the label references are not in pairs"
		}
		value, ok2 := d.symbol(m.varint())
		if !ok1 || !ok2 {
			return ls, "a label reference is outside the symbols of the request"
		}
		ls = d.addLabel(ls, millstream.Label{Name: name, Value: value})
	}
	*bad = *bad || m.bad
	return ls, ""
}

func (d *decoder) sampleV2(outer *message) {
	m := message{p: outer.bytes()}
	var v float64
	var ms, start int64
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == fixedType:
			v = m.double()
		case num == 2 && typ == varintType:
			ms = int64(m.varint())
		case num == 3 && typ == varintType:
			start = int64(m.varint())
		default:
			m.skip(num, typ)
		}
	}
	outer.bad = outer.bad || m.bad
	d.sample(ms, v, start, nil)
}

func (d *decoder) histogramV2(p []byte) string {
	var h writev2.Histogram
	if err := h.Unmarshal(p); err != nil {
		return "a native histogram is malformed"
	}
	return d.native(h.IsFloatHistogram(), h.ToIntHistogram, h.ToFloatHistogram, h.Timestamp, h.StartTimestamp)
}

func (d *decoder) exemplarV2(outer *message) {
	m := message{p: outer.bytes()}
	var e millstream.Exemplar
	var ls []millstream.Label
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == bytesType:
			var reason string
			if ls, reason = d.refs(ls, m.bytes(), &m.bad); reason != "" {
				return // an exemplar is an extra: one that cannot be kept never costs its sample
			}
		case num == 2 && typ == fixedType:
			e.Value = m.double()
		case num == 3 && typ == varintType:
			e.Time = int64(m.varint())
		default:
			m.skip(num, typ)
		}
	}
	outer.bad = outer.bad || m.bad
	d.exemplar(e, ls)
}

func (d *decoder) metadataV2(outer *message, md *millstream.Metadata) (reason string) {
	m := message{p: outer.bytes()}
	var help, unit, typ uint64
	for {
		num, wt, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && wt == varintType:
			typ = m.varint()
		case num == 3 && wt == varintType:
			help = m.varint()
		case num == 4 && wt == varintType:
			unit = m.varint()
		default:
			m.skip(num, wt)
		}
	}
	outer.bad = outer.bad || m.bad
	h, ok1 := d.symbol(help)
	u, ok2 := d.symbol(unit)
	if !ok1 || !ok2 {
		return "a metadata reference is outside the symbols of the request"
	}
	if typ != 0 || h != "" || u != "" {
		md.Type, md.Help, md.Unit = metricType(typ), text(h), text(u)
	}
	return ""
}
