"""Positions and commits."""
