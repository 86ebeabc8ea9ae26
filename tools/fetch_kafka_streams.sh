#!/usr/bin/env bash
# Fetch Kafka Streams for tests/interop: tools/fetch_kafka_streams.sh [CACHE]
set -euo pipefail
version=4.3.1
"$(dirname "$0")/fetch_jars.sh" "kafka-streams-$version" "Kafka Streams $version" "$@" <<JARS
org.apache.kafka:kafka-streams:$version
org.slf4j:slf4j-simple:1.7.36
JARS
