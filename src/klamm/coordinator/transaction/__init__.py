"""The transaction coordinator: producer identities, the life of each transaction, and its markers.

- `states` has the states and the transitions between them as a table.
- `remembered` and `records` are what `__transaction_state` holds, as values and as Kafka's bytes.
- `state` is the state of one shard. Records change it through `replay`, notes through `apply`.
- `machine` dispatches requests and signals to one module per decision: `init_producer_id`, `add_partitions`,
  `end_txn`, `markers`, `timeouts`, `expiry`, `describe`.
- `coordinator` finds the shard of a transactional id, or answers why there is none.

The response to EndTxn waits for Complete, at most 100 ms: a client that is answered after Prepare begins
its next transaction too early and is rejected. Kafka answers after Prepare.

A transaction is pending, and requests about it get CONCURRENT_TRANSACTIONS, in two cases: it is prepared and
not complete, or a request waits for a new producer id. Kafka has a third, an append that is not durable yet;
here the next request decides on the appended record, and its response waits for the same flush.

Work outside the shard is ordered by `actions`, once the decision behind it is durable. The host carries it
out and returns the result as a signal: `WriteMarkers` gives `MarkersWritten`, `AllocateProducerId` gives
`ProducerIdAllocated`.
"""
