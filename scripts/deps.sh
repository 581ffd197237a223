#!/usr/bin/env bash
# Installs what Millstream needs from the distribution: a C++ compiler (the SQL engine is linked in) and PostgreSQL's server binaries; and the packages given, named as their commands (node brings npm along).
set -euo pipefail
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
for package in "$@"; do
  command -v "$package" >/dev/null && continue
  case "$package" in
    node) missing+=(nodejs npm) ;;
    protoc) missing+=(protobuf-compiler) ;;
    *) missing+=("$package") ;;
  esac
done
command -v go >/dev/null || { echo "Go 1.26 or newer is needed: see https://go.dev/doc/install" >&2; exit 1; }
[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "please install as root: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
command -v apt-get >/dev/null || { echo "please install with your package manager: ${missing[*]}" >&2; exit 1; }
# The node runs its own PostgreSQL; Debian's package would also create and start a cluster of its own.
"${as_root[@]}" mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
