"""Where kafka-python has its assignors."""
