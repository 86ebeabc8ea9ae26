"""The group coordinator: consumer groups in the classic protocol, and committed offsets.

Whoever runs it does this:

- `GroupCoordinator(config, partition_count=…, topics=…, host=…)`. The host (`runtime.shard.Host`) is told
  what to do: `send(token, response)` answers a request, `tell(event)` passes on one of `events`,
  `wake(at_ms)` asks for a `tick` at an instant, `load(shard)` for `shard.load_some(context, max_bytes)` until
  it is True. None of them may call back into the coordinator.
- `shards.elect(partition, epoch, open_log)` when this broker leads a partition of `__consumer_offsets`,
  `shards.resign(partition, epoch)` when it does not any more, `shards.stop()` at the end.
- `handle(request, context)` for every request; the context brings the time, the client, a fresh id where a
  JoinGroup has no member id, and the token under which the answer comes, now or later.
- `shards.tick(context)` when `wake` said so, at the latest at `shards.next_look_ms()`.
- `shard.on_durable(now)` when a log's durable offset moved, `shard.on_flush_failed()` when it never will.
- `topic_deleted(name, context)` when a topic is gone.

Inside, `machine` combines the decisions of `classic/` (the classic group protocol), of `offsets/` (committed
offsets, plain and in transactions) and of the admin APIs: one module per API, and one for what timers do.
They read a `state.GroupState` and return an `Outcome`. What the log remembers changes through `replay` alone,
what a restart forgets through `notes.apply` alone, while loading as well. Offsets and admin APIs see the
members of a group as a `membership.Membership`; another group protocol is another implementation of it, in a
folder beside `classic/`, with its own notes, signals and decisions.
"""
