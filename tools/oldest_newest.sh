#!/usr/bin/env bash
# Tests as plain Python on the oldest and the newest Python of this machine that klamm runs on: tools/oldest_newest.sh PYTHON
# PYTHON is the one that `make unit` has run with: it is not tried again. Pythons are looked for on the path and in pyenv.
set -euo pipefail
cd "$(dirname "$0")/.."
usual=$1

works() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
version() { "$1" -c 'import platform; print(platform.python_version())'; }

found=()
for name in python3.11 python3.12 python3.13 python3.14; do
  python=$name
  if ! works "$python" && command -v pyenv >/dev/null; then
    installed=$(pyenv versions --bare 2>/dev/null | grep -E "^${name#python}\.[0-9]+$" | tail -1 || true)
    [ -z "$installed" ] || python=$(pyenv prefix "$installed")/bin/python
  fi
  if works "$python"; then found+=("$python"); fi
done

if [ ${#found[@]} -eq 0 ]; then
  echo "only $(version "$usual") is here: oldest and newest are what make unit has run"
  exit 0
fi
tried=$(version "$usual")
echo "Pythons on this machine: $(for python in "${found[@]}"; do version "$python"; done | tr '\n' ' ')- make unit runs with $tried"
for python in "${found[0]}" "${found[-1]}"; do
  if [[ " $tried " == *" $(version "$python") "* ]]; then continue; fi
  tried="$tried $(version "$python")"
  venv=build/venv-$(version "$python")
  KLAMM_BUILD=pure tools/make_venv.sh "$python" "$venv" '.[regex,test]'
  echo "tests with $(version "$python")"
  KLAMM_PURE=1 "$venv/bin/python" -m pytest -q --timeout=120 -n auto --dist worksteal \
    --ignore-glob='*/test_core_*' tests/unit/coordinator tests/unit/client/consumer tests/unit/client/producer
done
