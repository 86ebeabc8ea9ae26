#!/usr/bin/env bash
# Fetch Spark's own Kafka connector from Maven Central, once, into CACHE/spark-kafka-VERSION/libs: the other
# side of the comparisons in tests/spark and bench. tools/fetch_spark_connector.sh [CACHE]
set -euo pipefail
version=4.2.0
cache=${1:-${KLAMM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/klamm}}
home=$cache/spark-kafka-$version
[ -f "$home/.complete" ] && exit 0

echo "fetching Spark's Kafka connector $version into $home"
mkdir -p "$home"
# Its token provider and the Kafka client are named one by one: what comes with Spark must not come twice.
cat > "$home/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>klamm</groupId><artifactId>spark-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>$version</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
      <version>4.1.0-preview1</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>3.9.2</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.commons</groupId><artifactId>commons-pool2</artifactId><version>2.13.1</version>
    </dependency>
  </dependencies>
</project>
POM
(cd "$home" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs -DincludeScope=runtime)
touch "$home/.complete"
