"""Moving over while a group runs: classic to consumer and back, and members of both protocols in one group.

A group that has members of both is one of the consumer protocol: its coordinator assigns. `upgrade` makes it
one when the first member of the consumer protocol joins, `downgrade` undoes that when the last one is gone.
In between, a member of the classic protocol takes its epoch for a generation: with JoinGroup it reports what
it owns and learns its epoch, with SyncGroup it fetches what it has been granted, and with Heartbeat it hears
when it should join again. None of these requests waits for other members.
"""
