"""Coordinators at work in this broker: shards on partition logs, time, answers, events."""
