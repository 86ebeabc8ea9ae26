"""Membership: joining, leading, heartbeats, what a rebalance means for the assignment."""
