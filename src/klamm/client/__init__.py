"""Consumer, producer, admin: a sans-IO core with thin faces."""
