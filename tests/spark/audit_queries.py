"""The derived tables as SQL over the base tables: what the audit makes in one pass must be the same.

Order inside a log is `log_offset`, never a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from klamm.spark.audit import Audit

LATEST_OFFSETS: Final = """
SELECT group_id, topic, partition, last.committed_offset, last.commit_ts, last.metadata
FROM (
  SELECT group_id, topic, partition,
         max_by(struct(committed_offset, commit_ts, metadata, is_tombstone), log_offset) AS last
  FROM {offset_commits}
  WHERE txn IN ('none', 'committed')
  GROUP BY group_id, topic, partition
)
WHERE NOT last.is_tombstone
"""

COMMIT_HISTORY: Final = """
SELECT group_id, topic, partition, prev_offset, committed_offset, committed_offset - prev_offset AS delta,
       prev_commit_ts, commit_ts, unix_millis(commit_ts) - unix_millis(prev_commit_ts) AS gap_ms,
       committed_offset < prev_offset AS is_rewind
FROM (
  SELECT *, lag(committed_offset) OVER w AS prev_offset, lag(commit_ts) OVER w AS prev_commit_ts
  FROM {offset_commits}
  WHERE txn IN ('none', 'committed') AND NOT is_tombstone
  WINDOW w AS (PARTITION BY group_id, topic, partition ORDER BY log_offset)
)
"""

ASSIGNMENTS: Final = """
SELECT group_id, generation, item.topic, item.partition, member_id, client_id
FROM {group_members} LATERAL VIEW explode(assigned) AS item
"""

# One row for each time that a group was written: a generation that is complete, or a group without members.
# A static member keeps its instance id over restarts, so that is its name where there is one.
STEPS: Final = """
WITH members AS (
  SELECT log_partition, log_offset,
         array_sort(collect_set(coalesce(instance_id, member_id))) AS ids,
         array_sort(collect_set(array_join(array_sort(subscribed_topics), ','))) AS subscriptions
  FROM {group_members}
  GROUP BY log_partition, log_offset
),
steps AS (
  SELECT r.*, coalesce(m.ids, array()) AS ids, coalesce(m.subscriptions, array()) AS subscriptions
  FROM {group_registrations} AS r LEFT JOIN members AS m USING (log_partition, log_offset)
)
SELECT *, lag(struct(log_offset, log_timestamp, generation, leader, protocol, member_count, ids,
                     subscriptions, is_tombstone))
          OVER (PARTITION BY group_id ORDER BY log_offset) AS before_any
FROM steps
"""

# The same for groups with the consumer protocol: one row for each epoch. Records of members that joined or
# left come before that of the epoch which they made necessary.
CONSUMER_STEPS: Final = """
WITH members AS (
  SELECT *, lag(struct(is_tombstone, subscribed_topics, subscribed_regex))
            OVER (PARTITION BY group_id, member_id ORDER BY log_offset) AS before
  FROM {consumer_members}
),
epochs AS (
  SELECT log_partition, log_offset, log_timestamp, group_id, epoch, is_tombstone
  FROM {consumer_groups} WHERE kind = 'group'
),
timeline AS (
  SELECT group_id, log_offset, member_id, CAST(NULL AS bigint) AS epoch_offset,
         CASE WHEN NOT is_tombstone AND coalesce(before.is_tombstone, true) THEN 1
              WHEN is_tombstone AND NOT before.is_tombstone THEN -1 ELSE 0 END AS change,
         NOT is_tombstone AND NOT before.is_tombstone
           AND NOT (subscribed_topics <=> before.subscribed_topics
                    AND subscribed_regex <=> before.subscribed_regex) AS is_resubscribed
  FROM members
  UNION ALL
  SELECT group_id, log_offset, NULL, log_offset, 0, false FROM epochs
),
placed AS (
  SELECT *, min(epoch_offset) OVER (PARTITION BY group_id ORDER BY log_offset
                                    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS at_offset
  FROM timeline
),
changes AS (
  SELECT group_id, at_offset, sum(change) AS change,
         collect_set(CASE WHEN change > 0 THEN member_id END) AS joined,
         collect_set(CASE WHEN change < 0 THEN member_id END) AS `left`,
         coalesce(bool_or(is_resubscribed), false) AS subscriptions_changed
  FROM placed WHERE at_offset IS NOT NULL GROUP BY group_id, at_offset
),
counted AS (
  SELECT e.*, c.joined, c.`left`, c.subscriptions_changed,
         CAST(sum(c.change) OVER (PARTITION BY e.group_id ORDER BY e.log_offset) AS int) AS member_count
  FROM epochs AS e JOIN changes AS c ON c.group_id = e.group_id AND c.at_offset = e.log_offset
)
SELECT *, lag(struct(log_offset, log_timestamp, epoch, member_count, is_tombstone))
          OVER (PARTITION BY group_id ORDER BY log_offset) AS before_any
FROM counted
"""

REBALANCES: Final = """
WITH pairs AS (
  SELECT *, if(before_any.is_tombstone, NULL, before_any) AS before FROM {steps} WHERE NOT is_tombstone
),
classic AS (
  SELECT group_id, 'classic' AS group_type, before.generation AS from_generation,
         generation AS to_generation, log_timestamp AS at,
         unix_millis(log_timestamp) - unix_millis(before.log_timestamp) AS since_previous_ms,
         coalesce(before.member_count, 0) AS members_before, member_count AS members_after,
         array_except(ids, coalesce(before.ids, array())) AS joined,
         array_except(coalesce(before.ids, array()), ids) AS `left`,
         NOT (leader <=> before.leader) AS leader_changed,
         NOT (protocol <=> before.protocol) AS protocol_changed,
         NOT (subscriptions <=> before.subscriptions) AS subscriptions_changed,
         coalesce(generation - before.generation > 1, false) AS is_gap,
         log_partition, log_offset, before.log_offset AS from_log_offset
  FROM pairs
  -- Kafka writes a new group before a member has joined: that is not a rebalance.
  WHERE CASE WHEN before IS NULL THEN member_count > 0
             ELSE generation <> before.generation OR member_count <> before.member_count
                  OR NOT (ids <=> before.ids) END
),
consumer_pairs AS (
  SELECT *, if(before_any.is_tombstone, NULL, before_any) AS before FROM {consumer_steps}
  WHERE NOT is_tombstone
),
consumer AS (
  SELECT group_id, 'consumer' AS group_type, before.epoch AS from_generation, epoch AS to_generation,
         log_timestamp AS at,
         unix_millis(log_timestamp) - unix_millis(before.log_timestamp) AS since_previous_ms,
         coalesce(before.member_count, 0) AS members_before, member_count AS members_after, joined, `left`,
         false AS leader_changed, false AS protocol_changed, subscriptions_changed,
         coalesce(epoch - before.epoch > 1, false) AS is_gap,
         log_partition, log_offset, before.log_offset AS from_log_offset
  FROM consumer_pairs
  WHERE CASE WHEN before IS NULL THEN member_count > 0 ELSE epoch <> before.epoch END
),
found AS (SELECT * FROM classic UNION ALL SELECT * FROM consumer),
events AS (
  SELECT group_id, generation_after, timestamp_ms, cause, client_id, member_id, reason,
         join_phase_ms + coalesce(sync_phase_ms, 0) AS duration_ms, moved_count
  FROM {events}
  WHERE type IN ('rebalance_completed', 'group_emptied')
),
matched AS (
  SELECT f.group_id, f.log_offset,
         min_by(struct(e.cause, e.client_id, e.member_id, e.reason, e.duration_ms, e.moved_count),
                abs(e.timestamp_ms - unix_millis(f.at))) AS event
  FROM found AS f JOIN events AS e
    ON e.group_id = f.group_id AND e.generation_after = f.to_generation
       AND abs(e.timestamp_ms - unix_millis(f.at)) < 300000
  GROUP BY f.group_id, f.log_offset
)
SELECT f.*,
       coalesce(event.cause, CASE
         WHEN members_after = 0 THEN 'the last member left'
         WHEN members_before = 0 THEN 'the first member joined'
         WHEN is_gap THEN 'several rebalances in a row'
         WHEN size(joined) > 0 AND size(`left`) > 0 THEN 'members joined and left'
         WHEN size(joined) > 0 THEN 'a member joined'
         WHEN size(`left`) > 0 THEN 'a member left or its session expired'
         WHEN subscriptions_changed THEN 'a subscription changed'
         WHEN protocol_changed THEN 'the assignor changed'
         WHEN group_type = 'consumer' THEN 'topics or partitions changed'
         ELSE 'a member rejoined'
       END) AS cause,
       event IS NULL AS is_inferred,
       event.client_id AS caused_by, event.reason, event.duration_ms, event.moved_count
FROM found AS f LEFT JOIN matched USING (group_id, log_offset)
"""

STICKINESS: Final = """
WITH pairs AS (
  SELECT group_id, from_generation, to_generation, at, log_partition, from_log_offset, log_offset,
         members_after
  FROM {rebalances}
  WHERE members_before > 0 AND members_after > 0
),
owners AS (
  SELECT log_partition, log_offset, coalesce(instance_id, member_id) AS owner, item.topic, item.partition
  FROM {group_members} LATERAL VIEW explode(assigned) AS item
),
present AS (
  SELECT DISTINCT log_partition, log_offset, coalesce(instance_id, member_id) AS owner FROM {group_members}
),
earlier AS (
  SELECT p.log_partition, p.log_offset, o.topic, o.partition, o.owner
  FROM pairs AS p JOIN owners AS o
    ON o.log_partition = p.log_partition AND o.log_offset = p.from_log_offset
),
later AS (
  SELECT p.log_partition, p.log_offset, o.topic, o.partition, o.owner
  FROM pairs AS p JOIN owners AS o ON o.log_partition = p.log_partition AND o.log_offset = p.log_offset
),
each AS (
  SELECT log_partition, log_offset, topic, partition, e.owner AS old_owner, l.owner AS new_owner
  FROM earlier AS e FULL OUTER JOIN later AS l USING (log_partition, log_offset, topic, partition)
),
counted AS (
  SELECT log_partition, log_offset,
         count_if(old_owner IS NOT NULL AND new_owner IS NOT NULL) AS common,
         count_if(old_owner = new_owner) AS kept,
         count_if(old_owner <> new_owner) AS moved,
         count_if(old_owner IS NULL) AS added,
         count_if(new_owner IS NULL) AS removed,
         count_if(new_owner IS NOT NULL) AS total
  FROM each
  GROUP BY log_partition, log_offset
),
by_owner AS (
  SELECT log_partition, log_offset, old_owner, count_if(old_owner <> new_owner) AS moved, count(*) AS held
  FROM each
  WHERE old_owner IS NOT NULL AND new_owner IS NOT NULL
  GROUP BY log_partition, log_offset, old_owner
),
forced AS (
  SELECT b.log_partition, b.log_offset,
         sum(CASE WHEN p.owner IS NULL THEN b.moved
                  ELSE least(b.moved, greatest(0, b.held - cast(ceil(c.total / q.members_after) AS bigint)))
             END) AS forced_moves
  FROM by_owner AS b
    JOIN counted AS c USING (log_partition, log_offset)
    JOIN pairs AS q USING (log_partition, log_offset)
    LEFT JOIN present AS p
      ON p.log_partition = b.log_partition AND p.log_offset = b.log_offset AND p.owner = b.old_owner
  GROUP BY b.log_partition, b.log_offset
)
SELECT q.group_id, q.from_generation, q.to_generation, q.at, c.common, c.kept, c.moved, c.added, c.removed,
       CASE WHEN c.common > 0 THEN c.kept / c.common END AS stickiness,
       coalesce(f.forced_moves, 0) AS forced_moves, c.moved - coalesce(f.forced_moves, 0) AS excess_moves
FROM pairs AS q JOIN counted AS c USING (log_partition, log_offset)
  LEFT JOIN forced AS f USING (log_partition, log_offset)
"""

# A transaction is identified by its id and start time; its last record has its state.
TRANSACTION_SPANS: Final = """
SELECT transactional_id, start_ts, last.producer_id, last.producer_epoch, last.timeout_ms, last.state,
       partition_count, end_ts,
       unix_millis(coalesce(end_ts, {as_of})) - unix_millis(start_ts) AS duration_ms,
       end_ts IS NULL AS is_open
FROM (
  SELECT transactional_id, start_ts,
         max_by(struct(producer_id, producer_epoch, timeout_ms, state, update_ts), log_offset) AS last,
         max(size(partitions)) AS partition_count,
         max(CASE WHEN state IN ('CompleteCommit', 'CompleteAbort') THEN update_ts END) AS end_ts
  FROM {transactions}
  WHERE start_ts IS NOT NULL AND state <> 'Empty'
  GROUP BY transactional_id, start_ts
)
"""

LAG: Final = """
SELECT o.group_id, o.topic, o.partition, o.committed_offset, e.log_end_offset,
       greatest(0, e.log_end_offset - o.committed_offset) AS lag,
       unix_millis({as_of}) - unix_millis(o.commit_ts) AS commit_age_ms, {as_of} AS as_of
FROM {latest_offsets} AS o LEFT JOIN {end_offsets} AS e USING (topic, partition)
-- The exactly-once sink keeps the number of its last batch as an offset: that is no place in a topic.
WHERE NOT (o.group_id LIKE '%.sink' AND o.metadata LIKE 'v1;%')
"""

# What a group is now. A group known by its offsets alone has no members.
GROUPS: Final = """
WITH written AS (
  SELECT group_id, 'classic' AS group_type, generation, member_count,
         coalesce(state_ts, log_timestamp) AS since_ts, is_tombstone, log_offset
  FROM {group_registrations}
  UNION ALL
  SELECT group_id, 'consumer', epoch, member_count, log_timestamp, is_tombstone, log_offset
  FROM {consumer_steps}
),
registered AS (
  SELECT group_id,
         max_by(struct(group_type, generation, member_count, since_ts, is_tombstone), log_offset) AS last
  FROM written GROUP BY group_id
),
lags AS (
  SELECT group_id, sum(lag) AS lag, count(*) AS partition_count FROM {lag} GROUP BY group_id
),
moves AS (
  SELECT group_id, max(commit_ts) AS last_commit_ts,
         max(CASE WHEN NOT (delta <=> 0) THEN commit_ts END) AS last_progress_ts, count(*) AS commit_count
  FROM {commit_history} GROUP BY group_id
)
SELECT coalesce(r.group_id, l.group_id) AS group_id, r.last.group_type,
       coalesce(r.last.member_count, 0) AS member_count, r.last.generation,
       coalesce(l.partition_count, 0) AS partition_count, l.lag, m.commit_count,
       m.last_commit_ts, m.last_progress_ts,
       CASE WHEN coalesce(r.last.member_count, 0) = 0
            THEN timestamp_millis(unix_millis(greatest(m.last_commit_ts, r.last.since_ts)) + {retention_ms})
       END AS expires_ts,
       coalesce(r.last.member_count > 0 AND l.lag > 0
                AND unix_millis({as_of}) - unix_millis(m.last_progress_ts) >= {stuck_ms}, false) AS is_stuck
FROM (SELECT * FROM registered WHERE NOT last.is_tombstone) AS r
  FULL OUTER JOIN lags AS l USING (group_id) LEFT JOIN moves AS m USING (group_id)
"""

# Name -> its query, and the tables that the query needs.
QUERIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "latest_offsets": (LATEST_OFFSETS, ("offset_commits",)),
    "commit_history": (COMMIT_HISTORY, ("offset_commits",)),
    "assignments": (ASSIGNMENTS, ("group_members",)),
    "steps": (STEPS, ("group_members", "group_registrations")),
    "consumer_steps": (CONSUMER_STEPS, ("consumer_members", "consumer_groups")),
    "rebalances": (REBALANCES, ("steps", "consumer_steps", "events")),
    "stickiness": (STICKINESS, ("rebalances", "group_members")),
    "lag": (LAG, ("latest_offsets", "end_offsets")),
    "transaction_spans": (TRANSACTION_SPANS, ("transactions",)),
    "groups": (GROUPS, ("group_registrations", "consumer_steps", "lag", "commit_history")),
}


def by_sql(spark: SparkSession, audit: Audit, name: str) -> DataFrame:
    """A table of an audit that was written, as SQL makes it of the tables of its records."""
    if name == "end_offsets":
        return audit.table("lag").select("topic", "partition", "log_end_offset").distinct()
    if name not in QUERIES:
        return audit.table(name)
    query, tables = QUERIES[name]
    numbers = {
        "as_of": f"timestamp_millis({int(audit.as_of.timestamp() * 1000)})",
        "retention_ms": str(audit.retention_ms),
        "stuck_ms": str(audit.stuck_ms),
    }
    for word, text in numbers.items():
        query = query.replace(f"{{{word}}}", text)
    given: dict[str, Any] = {table: by_sql(spark, audit, table) for table in tables}
    return spark.sql(query, **given)
