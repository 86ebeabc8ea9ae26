#!/usr/bin/env bash
# Fetch jars and what they need from Maven Central, once, into CACHE/NAME/libs: tools/fetch_jars.sh NAME WHAT [CACHE] < JARS
# A line of JARS is group:artifact:version; `alone` behind it leaves out what the jar needs.
set -euo pipefail
name=$1
what=$2
cache=${3:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
home=$cache/$name
[ -f "$home/.complete" ] && exit 0

echo "fetching $what into $home"
mkdir -p "$home"
{
  echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
  echo "<groupId>klamm</groupId><artifactId>$name</artifactId><version>1</version><dependencies>"
  while IFS=': ' read -r group artifact version alone; do
    echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>"
    [ "$alone" != alone ] ||
      echo '<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>'
    echo '</dependency>'
  done
  echo '</dependencies></project>'
} > "$home/pom.xml"
(cd "$home" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs -DincludeScope=runtime)
touch "$home/.complete"
