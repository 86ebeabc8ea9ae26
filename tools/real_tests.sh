#!/usr/bin/env bash
# Run tests with real processes and real time: tools/real_tests.sh NAME COMMAND...
# On a busy machine one of hundreds may meet a time-out of a foreign client. Failed tests of one file, up to three, are run
# once more, alone; both outputs are printed. Every such repeat is noted in $KLAMM_REPEATS (.pytest_cache/repeats): with
# failed tests of a second file, in this stage or an earlier one, the stage fails. tools/real_tests.sh --report prints them.
set -euo pipefail
repeats=${KLAMM_REPEATS:-$PWD/.pytest_cache/repeats}
mkdir -p "$(dirname "$repeats")"
touch "$repeats"

if [ "$1" = --forget ]; then
  rm "$repeats"
  exit
fi
if [ "$1" = --report ]; then
  printf 'tests that passed the second time only: %d\n' "$(wc -l <"$repeats")"
  sed 's/^/   /' "$repeats"
  exit
fi

name=$1
shift
cache=$PWD/.pytest_cache/$name
rm -rf "$cache"
grep -v "^$name " "$repeats" >"$repeats.others" || true
mv "$repeats.others" "$repeats"
status=0
"$@" -o cache_dir="$cache" || status=$?
[ "$status" -eq 1 ] || exit "$status"
tests=$(grep -o '"[^"]*": true' "$cache/v/cache/lastfailed" 2>/dev/null | sed 's/^"\(.*\)": true/\1/' || true)
count=$(grep -c . <<<"$tests" || true)
if [ "$count" -lt 1 ] || [ "$count" -gt 3 ]; then exit "$status"; fi
files=$({ sed 's/^[^ ]* //' "$repeats"; printf '%s\n' "$tests"; } | sed 's/::.*//' | sort -u)
if [ "$(wc -l <<<"$files")" -gt 1 ]; then
  printf '\n== %s: failed tests in more than one file, none is run once more:\n' "$name"
  sed 's/^/   /' <<<"$files"
  exit "$status"
fi
printf '\n== %s: %d failed; run once more:\n' "$name" "$count"
sed 's/^/   /' <<<"$tests"
"$@" -o cache_dir="$cache" --last-failed --last-failed-no-failures none
sed "s/^/$name /" <<<"$tests" >>"$repeats"
printf '== %s: passed the second time only; the first failure is above and needs an explanation\n' "$name"
