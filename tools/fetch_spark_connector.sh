#!/usr/bin/env bash
# Fetch Spark's own Kafka connector, the other side of the comparisons in tests/spark and bench:
# tools/fetch_spark_connector.sh [CACHE]
set -euo pipefail
version=4.2.0
# Its token provider and the Kafka client are named one by one: what comes with Spark must not come twice.
"$(dirname "$0")/fetch_jars.sh" "spark-kafka-$version" "Spark's Kafka connector $version" "$@" <<JARS
org.apache.spark:spark-sql-kafka-0-10_2.13:$version alone
org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1 alone
org.apache.kafka:kafka-clients:3.9.2 alone
org.apache.commons:commons-pool2:2.13.1
JARS
