#!/usr/bin/env bash
# Whether the klamm on the PATH works: it starts a broker, and a record goes in and comes out.
set -euo pipefail
address=127.0.0.1:${1:-19092}
klamm up --memory --listen "$address" &
broker=$!
trap 'kill "$broker" 2>/dev/null || true' EXIT
klamm health -b "$address" --timeout 60
klamm topics create orders -b "$address"
echo one | klamm produce orders -b "$address"
[ "$(klamm consume orders -b "$address" -o beginning -n 1)" = one ]
python -c 'from klamm.records.core import COMPILED; print("compiled core:", COMPILED)'
kill "$broker"
wait "$broker"
