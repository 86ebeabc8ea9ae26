"""Metrics of the broker, with Kafka's names."""
