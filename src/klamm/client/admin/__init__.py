"""Topics, configurations, groups and offsets from the outside. Each operation is a coroutine over `Calls`."""
