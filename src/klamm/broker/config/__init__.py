"""Settings of brokers and topics: typed, described, and changed while the broker runs."""
