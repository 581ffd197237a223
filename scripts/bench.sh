#!/usr/bin/env bash
# Puts a node under the load of the workload driver and prints what it cost, query by query. Needs:
#   MSBENCH          the driver (default: msbench on the PATH)
#   SUITES           directory with logs-sql.json and promql.json
#   ROWS             log rows (default 4000000)
#   VICTORIA_LOGS, PROMETHEUS   their binaries, to measure in the same run (optional)
# Everything is kept below a temporary directory, which is removed at the end unless KEEP is set.
set -euo pipefail
cd "$(dirname "$0")/.."
msbench=${MSBENCH:-msbench}
suites=${SUITES:?set SUITES to the directory of the query suites}
rows=${ROWS:-4000000}
end=2026-11-30T01:00:00Z
start=2026-11-29T19:00:00Z
work=$(mktemp -d)
chmod 755 "$work"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; [ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
api=http://127.0.0.1:15080

section() { printf '\n## %s\n' "$*"; }

begin() { # a node with an empty directory
  MS_NODE_DATA_DIR=$work/data MS_HTTP_LISTEN=127.0.0.1:15080 MS_OTLP_LISTEN=127.0.0.1:14317 MS_AUTH_ROOT_EMAIL=bench@example.com MS_AUTH_ROOT_PASSWORD=a-long-bench-password \
    MS_TELEMETRY_SELF_COLLECT=false MS_TELEMETRY_LOG_LEVEL=warn bin/millstream serve 2>>"$work/node.log" &
  node=$!
  pids+=("$node")
  until curl -sf $api/api/v1/readyz >/dev/null; do sleep 0.1; done
  jwt=$(curl -s $api/api/v1/auth/login -H 'Content-Type: application/json' -d '{"email":"bench@example.com","password":"a-long-bench-password"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
  token=$(curl -s $api/api/v1/auth/tokens -H "Authorization: Bearer $jwt" -H 'Content-Type: application/json' -d '{"name":"bench","scopes":["intake","query","admin"]}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
}

stop() { kill "$node"; wait "$node" 2>/dev/null || true; rm -rf "$work/data"; }

load() { # kind, format, frames, path
  "$msbench" load -name "$1" -kind "$1" -format "$2" -in "$3" -conns 4 -pid "$node" -data "$work/data/objects" -url "$api$4" -H "Authorization: Bearer $token" \
    -flush "POST:$api/api/v1/node/flush" -settle 3s
}

query() { # suite
  sed "s/TOKEN/$token/; s#http://127.0.0.1:5080#$api#" "$suites/$1" >"$work/suite.json"
  "$msbench" query -suite "$work/suite.json" -start $start -end $end -rows "$rows" -pid "$node"
}

section "logs: $rows rows of NDJSON"
"$msbench" gen -rows "$rows" -end $end -frames -o "$work/logs.fr" >/dev/null
begin
load logs ndjson "$work/logs.fr" /api/v1/intake/json/logs
query logs-sql.json
stop

if [ -n "${VICTORIA_LOGS:-}" ]; then
  section "VictoriaLogs: the same rows"
  "$VICTORIA_LOGS" -storageDataPath="$work/vl" -httpListenAddr=127.0.0.1:19428 -retentionPeriod=100y -loggerLevel=ERROR 2>/dev/null &
  vl=$!
  pids+=("$vl")
  until curl -sf http://127.0.0.1:19428/health >/dev/null; do sleep 0.1; done
  "$msbench" load -name victorialogs -in "$work/logs.fr" -conns 4 -pid $vl -data "$work/vl" -content-type application/stream+json \
    -url 'http://127.0.0.1:19428/insert/jsonline?_time_field=timestamp&_msg_field=message&_stream_fields=service,pod' -flush http://127.0.0.1:19428/internal/force_flush -settle 10s
  "$msbench" query -suite scripts/suites/logsql.json -start $start -end $end -rows "$rows" -pid $vl
  kill $vl
  wait $vl 2>/dev/null || true
fi
rm -f "$work/logs.fr"

section "metrics: remote write"
"$msbench" gen -kind metrics -format remotewrite -end $end -frames -o "$work/metrics.fr" >/dev/null
begin
load metrics remotewrite "$work/metrics.fr" /api/v1/intake/prometheus/api/v1/write
query promql.json
stop

if [ -n "${PROMETHEUS:-}" ]; then
  section "Prometheus: the same samples"
  printf 'global: {}\nstorage: { tsdb: { out_of_order_time_window: 24h } }\n' >"$work/prometheus.yml"
  "$PROMETHEUS" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prom" --web.listen-address=127.0.0.1:19090 --web.enable-remote-write-receiver --storage.tsdb.retention.time=100y --log.level=error &
  prom=$!
  pids+=("$prom")
  until curl -sf http://127.0.0.1:19090/-/ready >/dev/null; do sleep 0.1; done
  "$msbench" load -name prometheus -kind metrics -format remotewrite -in "$work/metrics.fr" -conns 4 -pid $prom -data "$work/prom" -url http://127.0.0.1:19090/api/v1/write -settle 10s
  sed "s#http://127.0.0.1:5080/api/v1/query/prometheus#http://127.0.0.1:19090#" "$suites/promql.json" >"$work/prom.json"
  "$msbench" query -suite "$work/prom.json" -start $start -end $end -pid $prom
  kill $prom
  wait $prom 2>/dev/null || true
fi
rm -f "$work/metrics.fr"

section "traces: OTLP"
"$msbench" gen -kind traces -format otlp -rows 70000 -end $end -frames -o "$work/traces.fr" >/dev/null
begin
load traces otlp "$work/traces.fr" /v1/traces
stop
