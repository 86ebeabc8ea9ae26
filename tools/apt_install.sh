#!/usr/bin/env bash
# Install Debian packages: tools/apt_install.sh PACKAGE...
# Waits while another process holds the package manager's locks, for at most KLAMM_APT_TIMEOUT seconds (600).
set -euo pipefail
limit=${KLAMM_APT_TIMEOUT:-600}
log=${TMPDIR:-/tmp}/klamm-apt.log
export DEBIAN_FRONTEND=noninteractive

# apt waits for dpkg's lock if it is told to, but not for the lock of the package lists.
until apt-get update -qq >"$log" 2>&1; do
  if ! grep -q "Could not get lock" "$log" || [ "$SECONDS" -ge "$limit" ]; then
    tail -20 "$log" >&2
    exit 1
  fi
  [ -n "${waiting:-}" ] || echo "waiting for the package manager: $(grep -m1 'Could not get lock' "$log")"
  waiting=yes
  sleep 2
done
apt-get -o DPkg::Lock::Timeout="$limit" install -y -qq --no-install-recommends "$@" >"$log" 2>&1 ||
  { tail -20 "$log" >&2; exit 1; }
