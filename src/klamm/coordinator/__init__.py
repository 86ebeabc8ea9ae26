"""Decisions about groups and transactions: pure machines, and one runtime that carries them."""
