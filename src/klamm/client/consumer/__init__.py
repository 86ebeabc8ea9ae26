"""The consumer: subscriptions, positions, fetching, group membership. Sans-IO but for its faces."""
