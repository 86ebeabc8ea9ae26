#!/usr/bin/env bash
# Build the test programs of the clients that are not Python's, into CACHE/clients: tools/build_clients.sh [CACHE]
# Unchanged sources are not built again.
set -euo pipefail
cd "$(dirname "$0")/../tests/interop/clients"
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
out=$cache/clients
mkdir -p "$out"

build() { # build NAME FILE...: run build_NAME if these files differ from those of its last success
  local name=$1 sum
  shift
  sum=$(cat "$@" | sha256sum)
  [ "$(cat "$out/$name.built" 2>/dev/null)" != "$sum" ] || return 0
  echo "building the $name client"
  rm -rf "${out:?}/$name"
  "build_$name"
  echo "$sum" > "$out/$name.built"
}
build_java() { javac -nowarn -d "$out/java" -cp "$cache/kafka-4.3.1/libs/*" java/*.java; }
build_go() { (cd go && GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -mod=readonly" "$cache/bin/go" build -o "$out/go/client" .); }
build_js() { cp -r js "$out/js" && (cd "$out/js" && npm ci --no-audit --no-fund --loglevel=error); }

build java java/*.java
build go go/*.go go/go.mod go/go.sum
build js js/*.js js/package.json js/package-lock.json
