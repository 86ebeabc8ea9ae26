#!/usr/bin/env bash
# Fetch Spark's own Avro package, the other side of the comparison in tests/spark: tools/fetch_spark_avro.sh [CACHE]
# 4.1.1 is its newest release; newer Spark runs it, as most of it is in Spark itself.
set -euo pipefail
version=4.1.1
"$(dirname "$0")/fetch_jars.sh" "spark-avro-$version" "Spark's Avro package $version" "$@" <<JARS
org.apache.spark:spark-avro_2.13:$version alone
JARS
