"""What both coordinators share: shards, outcomes, timers, the log port."""
