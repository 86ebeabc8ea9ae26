#!/usr/bin/env bash
# Fetch Apache Kafka's server, client and tools from Maven Central, once, into CACHE/kafka-VERSION/libs:
# tools/fetch_kafka.sh [CACHE]
set -euo pipefail
version=4.3.1
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
home=$cache/kafka-$version
[ -f "$home/.complete" ] && exit 0

echo "fetching Apache Kafka $version into $home"
mkdir -p "$home"
cat > "$home/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>klamm</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version>
    </dependency>
  </dependencies>
</project>
POM
cat > "$home/log4j2.properties" <<LOG
rootLogger.level=WARN
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d %p %c{1} %m%n
LOG
(cd "$home" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs -DincludeScope=runtime)
touch "$home/.complete"
