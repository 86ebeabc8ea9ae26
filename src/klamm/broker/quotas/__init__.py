"""Quotas: how fast clients may produce, fetch, and change topics; per broker, as Kafka counts them."""
