"""`klamm demo`: a broker, a group that rebalances before your eyes, a Spark job; ends by itself."""
