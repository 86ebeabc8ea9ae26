"""Where aiokafka has its assignors."""
