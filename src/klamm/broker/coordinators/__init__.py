"""Coordinators in this broker: `host` runs them, `topic` is the internal topic, `events` records changes."""
