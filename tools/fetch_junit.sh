#!/usr/bin/env bash
# Fetch JUnit with its console launcher from Maven Central, once, into CACHE/junit/VERSION:
# tools/fetch_junit.sh [CACHE]
set -euo pipefail
version=1.11.4
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
home=$cache/junit/$version
jar=junit-platform-console-standalone
[ -f "$home/$jar.jar" ] && exit 0

echo "fetching JUnit $version into $home"
mkdir -p "$home"
mvn -q -B dependency:copy -Dartifact="org.junit.platform:$jar:$version" -DoutputDirectory="$home/new"
mv "$home/new/$jar-$version.jar" "$home/$jar.jar"
rmdir "$home/new"
