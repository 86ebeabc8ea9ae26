"""What carries a coordinator: shards, outcomes, timers and the port to the log; no I/O and no clock."""
