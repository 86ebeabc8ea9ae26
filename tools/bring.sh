#!/usr/bin/env bash
# What the tests need beside Python: git, a C compiler with Python's headers, a JDK, Maven, Node.js with npm, kcat, Go,
# Chromium, PostgreSQL.
# As root on Debian missing packages are installed; elsewhere one line names them.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}

python=${PYTHON:-python3}

missing=()
command -v git >/dev/null || missing+=(git)
command -v cc >/dev/null || command -v gcc >/dev/null || missing+=(gcc libc6-dev)
# Debian has these in packages of their own; other Pythons have them anyway.
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
"$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
  missing+=(python3-dev)
command -v java >/dev/null && command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v kcat >/dev/null || missing+=(kcat)
command -v chromium >/dev/null || missing+=(chromium)
# Debian keeps the server's programs out of the path. Tests start their own servers.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)

# A sign of life: packages, jars and clients take minutes the first time.
while sleep 10 >/dev/null 2>&1; do echo "  ... $SECONDS s"; done &
beat=$!
trap 'kill "$beat" 2>/dev/null || true' EXIT

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}"
    # Debian's package would create a cluster and start it: tests have their own.
    if [[ " ${missing[*]} " == *" postgresql "* ]]; then
      mkdir -p /etc/postgresql-common/createcluster.d
      echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/klamm-tests.conf
    fi
    tools/apt_install.sh "${missing[@]}"
  else
    echo "the tests need: ${missing[*]} (Debian: sudo apt-get install --no-install-recommends ${missing[*]})" >&2
    exit 1
  fi
fi

tools/fetch_kafka.sh "$cache"
tools/fetch_junit.sh "$cache"
tools/fetch_kafka_streams.sh "$cache"
tools/fetch_go.sh "$cache"
tools/build_clients.sh "$cache"
