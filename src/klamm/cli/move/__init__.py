"""`klamm move`: copy topics, configurations and committed offsets from one cluster to another."""
