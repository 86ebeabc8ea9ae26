#!/usr/bin/env bash
# Make a virtual environment and install klamm into it: tools/make_venv.sh PYTHON VENV WHAT
set -euo pipefail
python=$1
venv=$2
what=$3

if ! command -v "$python" >/dev/null; then
  echo "klamm needs Python 3.11 or newer: $python is not on the PATH (choose another with make PYTHON=...)" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "klamm needs Python 3.11 or newer, $python is $("$python" -V 2>&1) (choose another with make PYTHON=...)" >&2
  exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
  echo "making $venv with $("$python" -V)"
  if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    rm -rf "$venv"
    echo "$python cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)" >&2
    exit 1
  fi
fi
echo "installing klamm ($what) into $venv"
[[ $what != *"["* ]] || echo "  (with Spark: 450 MB to fetch and unpack the first time)"
# A sign of life: pip is silent while it fetches and unpacks.
while sleep 10 >/dev/null 2>&1; do echo "  ... $SECONDS s"; done &
beat=$!
trap 'kill "$beat" 2>/dev/null || true' EXIT
"$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -e "$what" |
  sed -unE 's/^Collecting ([^ ]+).*/  \1/p; s/^(Building .*|Successfully built .*)/  \1/p; s/^(Installing) collected.*/  \1/p'
[ "${KLAMM_BUILD:-}" != pure ] || exit 0
"$venv/bin/python" - <<'PY'
try:
    import klamm.records._core  # noqa: F401
except ImportError:
    print("nothing was compiled: klamm runs as plain Python, which is slower. For the other, install a C compiler and")
    print("Python's headers (Debian: apt-get install gcc libc6-dev python3-dev) and give make the option -B once")
else:
    print("the compiled core is built")
PY
