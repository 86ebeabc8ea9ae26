#!/usr/bin/env bash
# Fetch Kafka Streams from Maven Central, once, into CACHE/kafka-streams-VERSION/libs:
# tools/fetch_kafka_streams.sh [CACHE]
set -euo pipefail
version=4.3.1
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
home=$cache/kafka-streams-$version
[ -f "$home/.complete" ] && exit 0

echo "fetching Kafka Streams $version into $home"
mkdir -p "$home"
cat > "$home/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>klamm</groupId><artifactId>kafka-streams</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
POM
(cd "$home" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs -DincludeScope=runtime)
touch "$home/.complete"
