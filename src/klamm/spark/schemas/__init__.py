"""Values with schemas of a registry as columns: Avro, JSON Schema and Protobuf, without jars."""
