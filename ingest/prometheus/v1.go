package prometheus

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

// requestV1 reads a prometheus.WriteRequest.
func (d *decoder) requestV1(body []byte) error {
	m := message{p: body}
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == bytesType:
			if !d.seriesV1(m.bytes()) {
				m.bad = true
			}
		case num == 3 && typ == bytesType:
			d.metadataV1(&m)
		default:
			m.skip(num, typ)
		}
	}
	if m.bad {
		return errMalformed(protoV1)
	}
	return nil
}

// seriesV1 reads one TimeSeries; false means the message is malformed. Labels come first in what every sender writes, but the order is not promised.
func (d *decoder) seriesV1(p []byte) bool {
	d.begin()
	m := message{p: p}
	var reason string
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == bytesType:
			d.labels = d.addLabel(d.labels, label(&m))
		case num == 2 && typ == bytesType:
			v, ms := sampleV1(&m)
			d.sample(ms, v, 0, nil)
		case num == 3 && typ == bytesType:
			d.exemplarV1(&m)
		case num == 4 && typ == bytesType:
			if r := d.histogramV1(m.bytes()); r != "" {
				reason = r
			}
		default:
			m.skip(num, typ)
		}
	}
	if m.bad {
		return false
	}
	field, r := d.series()
	if r == "" {
		if r = reason; r == "" {
			r = d.finish()
		}
	}
	if r != "" {
		d.reject(field, r)
	}
	return true
}

func label(outer *message) (l millstream.Label) {
	m := message{p: outer.bytes()}
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == bytesType:
			l.Name = m.text()
		case num == 2 && typ == bytesType:
			l.Value = m.text()
		default:
			m.skip(num, typ)
		}
	}
	outer.bad = outer.bad || m.bad
	return l
}

func sampleV1(outer *message) (v float64, ms int64) {
	m := message{p: outer.bytes()}
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
		default:
			m.skip(num, typ)
		}
	}
	outer.bad = outer.bad || m.bad
	return v, ms
}

func (d *decoder) exemplarV1(outer *message) {
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
			ls = d.addLabel(ls, label(&m))
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

// histogramV1 adds a native histogram; the result is the reason to reject the series, if any.
func (d *decoder) histogramV1(p []byte) string {
	var h prompb.Histogram
	if err := h.Unmarshal(p); err != nil {
		return "a native histogram is malformed"
	}
	return d.native(h.IsFloatHistogram(), h.ToIntHistogram, h.ToFloatHistogram, h.Timestamp, 0)
}

// native adds a histogram of either version of the protocol, if it is consistent; else it says why not.
func (d *decoder) native(float bool, ints func() *histogram.Histogram, floats func() *histogram.FloatHistogram, ms, start int64) string {
	var enc []byte
	if float {
		fh := floats()
		if err := fh.Validate(); err != nil {
			return err.Error()
		}
		enc = metrics.EncodeHistogram(nil, nil, fh)
	} else {
		ih := ints()
		if err := ih.Validate(); err != nil {
			return err.Error()
		}
		enc = metrics.EncodeHistogram(nil, ih, nil)
	}
	d.sample(ms, 0, start, enc)
	return ""
}

func (d *decoder) metadataV1(outer *message) {
	m := message{p: outer.bytes()}
	var md millstream.Metadata
	md.Type = types[0]
	for {
		num, typ, ok := m.next()
		if !ok {
			break
		}
		switch {
		case num == 1 && typ == varintType:
			md.Type = metricType(m.varint())
		case num == 2 && typ == bytesType:
			md.Name = text(m.text())
		case num == 4 && typ == bytesType:
			md.Help = text(m.text())
		case num == 5 && typ == bytesType:
			md.Unit = text(m.text())
		default:
			m.skip(num, typ)
		}
	}
	outer.bad = outer.bad || m.bad
	if md.Name != "" && len(md.Name) <= MaxName {
		d.out.Metadata = append(d.out.Metadata, cloneMetadata(md))
	}
}
