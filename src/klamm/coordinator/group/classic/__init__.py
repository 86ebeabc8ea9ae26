"""The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the five states."""
