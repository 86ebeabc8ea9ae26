"""Time that a program moves: a clock, and what waits for it."""
