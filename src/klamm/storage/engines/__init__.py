"""Engines behind the storage interfaces."""
