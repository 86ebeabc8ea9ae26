"""Decisions: sans-IO, event-sourced coordinators. No I/O, no clock."""
