"""The group coordinator: consumer groups in the classic protocol, and committed offsets.

Its host does this:

- `GroupCoordinator(config, partition_count=…, topics=…, host=…)`. The coordinator calls the host
  (`runtime.shard_host.ShardHost`): `send(token, response)` answers a request, `tell(event)` reports one of
  `events`, `wake(at_ms)` requests a `tick` at an instant, `load(shard)` a
  `shard.load_some(context, max_bytes)` until it returns True. None of them may call back into
  the coordinator.
- `shards.elect(partition, epoch, open_log)` when this broker becomes the leader of a partition of
  `__consumer_offsets`, `shards.resign(partition, epoch)` when it no longer is, `shards.stop()` at the end.
- `handle(request, context)` for every request; the context holds the time, the client, a fresh id where a
  JoinGroup has no member id, and the token under which the answer comes, now or later.
- `txn_commit_refusal(request)` before a TxnOffsetCommit is verified with the transaction coordinator, and
  `txn_commit_refusal(request, error_code)` for the answer when verification failed; `handle` when it passed.
- `shards.tick(context)` when `wake` requested it, at the latest at `shards.next_check_ms()`.
- `shard.on_durable(now)` when a log's durable offset moved, `shard.on_flush_failed()` when a flush failed.
- `shard.on_written_by_others(TransactionEnded(…), offset)` when the marker of a transaction was written.
- `topic_deleted(name, context)` when a topic was deleted.

Inside, `machine` combines the decisions of `classic/` (the classic group protocol), of `offsets/` (committed
offsets, plain and in transactions) and of the admin APIs: one module per API, and one for what timers do.
`consumer/` is the protocol in which the coordinator assigns, `mixed/` groups with members of both protocols.
They read a `state.GroupState` and return an `Outcome`. Logged state changes through `replay` alone,
transient state through `notes.apply` alone, while loading as well. Offsets and admin APIs see the
members of a group as a `membership.Membership`; another group protocol is another implementation of it, in a
folder beside `classic/`, with its own notes, signals and decisions.
"""
