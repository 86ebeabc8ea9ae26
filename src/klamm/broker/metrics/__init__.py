"""Figures about the broker, under the names that Kafka gives them."""
