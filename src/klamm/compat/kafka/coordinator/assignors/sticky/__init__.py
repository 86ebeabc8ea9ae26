"""Where kafka-python has its `sticky` assignor."""
