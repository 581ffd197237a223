package promql

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// The ends of time that Prometheus uses for a range without bounds.
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// ParseTime reads seconds since the epoch, with a fraction, or RFC 3339.
func ParseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		whole, part := math.Modf(f)
		part = math.Round(part*1000) / 1000
		return time.Unix(int64(whole), int64(part*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, t := range []time.Time{minTime, maxTime} { // their years are beyond what time.Parse reads
		if s == t.Format(time.RFC3339Nano) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// ParseDuration reads seconds, with a fraction, or Prometheus' form (5m, 1h30m).
func ParseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * float64(time.Second)
		if math.IsNaN(ns) || ns >= math.MaxInt64 || ns < math.MinInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return time.Duration(d), nil
}

// params reads the parameters of a request; the first that is not right is kept in err.
type params struct {
	url.Values
	err error
}

func (p *params) fail(name string, err error) {
	if p.err == nil {
		p.err = badParameter(name, err)
	}
}

// time reads a time, or gives def if it is absent.
func (p *params) time(name string, def time.Time) time.Time {
	s := p.Get(name)
	if s == "" {
		return def
	}
	t, err := ParseTime(s)
	if err != nil {
		p.fail(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t
}

// required reads a time that has to be given.
func (p *params) required(name string) time.Time {
	t, err := ParseTime(p.Get(name))
	if err != nil {
		p.fail(name, err)
	}
	return t
}

func (p *params) step() time.Duration {
	d, err := ParseDuration(p.Get("step"))
	if err == nil && d <= 0 {
		err = errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer")
	}
	if err != nil {
		p.fail("step", err)
	}
	return d
}

// limit reads a number of results; 0 is no limit.
func (p *params) limit() int {
	s := p.Get("limit")
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		p.fail("limit", err)
	}
	return n
}

// timeout reads how long the query may take, which can only be less than the configured maximum.
func (p *params) timeout(longest time.Duration) time.Duration {
	s := p.Get("timeout")
	if s == "" {
		return longest
	}
	d, err := ParseDuration(s)
	if err != nil {
		p.fail("timeout", err)
	}
	return min(d, longest)
}

func (p *params) lookback() time.Duration {
	s := p.Get("lookback_delta")
	if s == "" {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil && p.err == nil {
		p.err = badData(fmt.Errorf("error parsing lookback delta duration: %w", err))
	}
	return d
}

// selectors reads the match[] parameters.
func (p *params) selectors(a *API) [][]*labels.Matcher {
	sets, err := a.parser.ParseMetricSelectors(p.Values["match[]"])
	if err == nil {
		for _, ms := range sets {
			if matchesEmpty(ms) {
				err = errors.New("match[] must contain at least one non-empty matcher")
				break
			}
		}
	}
	if err != nil && p.err == nil {
		p.err = badData(err)
	}
	return sets
}

func matchesEmpty(ms []*labels.Matcher) bool {
	for _, m := range ms {
		if m != nil && !m.Matches("") {
			return false
		}
	}
	return true
}
