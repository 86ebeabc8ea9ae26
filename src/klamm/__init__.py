"""klamm: a Kafka-protocol broker, client and Spark pipeline in Python."""

__version__ = "0.1.0"
