"""`klamm demo`: a broker, a consumer group that rebalances, a Spark job; ends by itself."""
