#!/usr/bin/env bash
# What the tests with real clients need beside Python: a JDK, Maven, Node.js with npm, kcat, Go.
# As root on Debian missing packages are installed; elsewhere one line names them.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}

missing=()
command -v java >/dev/null && command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v kcat >/dev/null || missing+=(kcat)

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >"${TMPDIR:-/tmp}/klamm-apt.log" 2>&1 ||
      { tail -20 "${TMPDIR:-/tmp}/klamm-apt.log" >&2; exit 1; }
  else
    echo "the tests with real clients need: ${missing[*]} (Debian: sudo apt-get install --no-install-recommends ${missing[*]})" >&2
    exit 1
  fi
fi

tools/fetch_kafka.sh "$cache"
tools/fetch_go.sh "$cache"
tools/build_clients.sh "$cache"
