"""The producer: partitioning, batching, sending with order kept, and futures that always resolve."""
