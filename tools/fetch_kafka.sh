#!/usr/bin/env bash
# Fetch Apache Kafka's server, client and tools, the other side of the comparisons: tools/fetch_kafka.sh [CACHE]
set -euo pipefail
version=4.3.1
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
"$(dirname "$0")/fetch_jars.sh" "kafka-$version" "Apache Kafka $version" "$cache" <<JARS
org.apache.kafka:kafka_2.13:$version
org.apache.kafka:kafka-tools:$version
org.apache.logging.log4j:log4j-slf4j-impl:2.25.4
JARS
log=$cache/kafka-$version/log4j2.properties
[ -f "$log" ] || cat > "$log" <<LOG
rootLogger.level=WARN
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d %p %c{1} %m%n
LOG
