package dashboard

import "slices"

// Units are the ids of units that pages scale and name; they are those of Grafana. Any other unit is shown as it is behind the number.
var Units = []string{
	"short", "percent", "percentunit", "bool", "bool_yes_no", "bool_on_off", "sci", "hex",
	"bytes", "decbytes", "bits", "decbits", "kbytes", "deckbytes", "mbytes", "decmbytes", "gbytes", "decgbytes",
	"Bps", "binBps", "bps", "binbps", "KBs", "MBs", "GBs", "Kbits", "Mbits", "Gbits", "pps",
	"ns", "µs", "ms", "s", "m", "h", "d", "dtdurations", "dtdurationms", "dateTimeAsIso", "dateTimeFromNow",
	"ops", "reqps", "rps", "wps", "iops", "cps", "eps", "mps", "opm", "rpm", "wpm", "hertz", "rotrpm",
	"celsius", "fahrenheit", "kelvin", "watt", "kwatt", "volt", "amp", "watth", "kwatth", "joule", "dB", "humidity",
}

// KnownUnit says whether pages scale and name a unit.
func KnownUnit(unit string) bool { return slices.Contains(Units, unit) }
