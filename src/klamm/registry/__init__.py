"""A schema registry with Confluent's REST API, whose state is the topic `_schemas` of a cluster."""
