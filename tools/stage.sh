#!/usr/bin/env bash
# Run one stage under a heading and say how long it took: tools/stage.sh NAME COMMAND...
set -euo pipefail
name=$1
shift
printf '\n== %s\n' "$name"
start=$SECONDS
status=0
"$@" || status=$?
if [ "$status" -eq 0 ]; then
  printf '== %s: %d s\n' "$name" $((SECONDS - start))
else
  printf '== %s FAILED after %d s\n' "$name" $((SECONDS - start))
fi
exit "$status"
