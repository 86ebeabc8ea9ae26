"""Coordinators in this broker: `host` runs any of them, `topic` is its internal topic, `events` its story."""
