"""Where aiokafka has its `sticky` assignor."""
