"""What an operator can set: typed, described, changed while the broker runs."""
