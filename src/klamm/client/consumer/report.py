"""How a consumer is doing, for people and for monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from klamm.client.consumer.state import PositionStatus
from klamm.client.outlook import cluster_problems
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.client.consumer.consumer_operations import ConsumerOperations


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """A snapshot of a consumer's state; any thread may take one."""

    is_healthy: bool
    problems: tuple[str, ...]  # why not
    member_state: str
    member_id: str
    generation_id: int
    coordinator_id: int | None
    assignment: tuple[TopicPartition, ...]
    without_position: tuple[TopicPartition, ...]
    since_poll_ms: int
    since_heartbeat_ms: int | None
    last_error: str | None


class ConsumerMetrics(TypedDict):
    """Counters since the beginning, and how far behind a consumer is."""

    polls: int
    records_consumed: int
    bytes_fetched: int
    fetch_requests: int
    fetch_answers: int
    fetch_answers_ms: int  # how long they took, in sum; a broker waits for records, up to fetch.max.wait.ms
    commits: int
    commit_failures: int
    rebalances: int
    join_ms: (
        int | None
    )  # of the last rebalance that is over: how long its JoinGroup waited; None: there was none
    sync_ms: int | None  # and its SyncGroup
    coordinator_lookups: int
    assigned_partitions: int
    partitions_without_lag: int  # whose lag is not known
    records_lag: int | None  # None while that of a partition is not known, or there is none
    records_lag_max: int | None


def described(operations: ConsumerOperations) -> str:
    """A consumer in a few words."""
    settings, state = operations.settings, operations.state
    if operations.is_closed:
        return f"{settings.client_id}: closed"
    count = len(state.partitions)
    member = (
        f"group {settings.group_id} {operations.engine.membership.state.value}, " if state.is_auto else ""
    )
    return f"{settings.client_id}: {member}{count} partition{'s' * (count != 1)}"


def health(operations: ConsumerOperations) -> ConsumerHealth:
    """The client's own state; sends no request."""
    engine, settings = operations.engine, operations.settings
    now_ms = operations.host.clock.now_ms()
    membership, coordinator = engine.membership, engine.coordinator.node
    is_auto = engine.state.is_auto
    since_poll_ms = max(0, now_ms - engine.last_poll_ms)
    beaten_ms = membership.last_heartbeat_ms
    error = operations.host.failure or engine.core.metadata.error
    problems = []
    ended = operations.host.failure
    if ended is not None:
        problems.append(f"the client's thread has stopped: {ended!r}")
    if operations.is_closed:
        problems.append("closed")
    problems += cluster_problems(engine.core)
    if is_auto and coordinator is None:
        problems.append("the coordinator is unknown")
    if is_auto and membership.state.value != "stable":
        problems.append(f"not a stable member: {membership.state.value}, {membership.rejoin_cause}")
    elif is_auto and (membership.needs_rejoin or engine.joining.is_running):
        # In this order, which is that of a join: it is under way until its assignment is applied.
        problems.append(f"rejoining: {membership.rejoin_cause}")
    if is_auto and since_poll_ms >= settings.max_poll_interval_ms and not engine.is_waiting:
        problems.append(
            f"no poll for {since_poll_ms} ms, max.poll.interval.ms is {settings.max_poll_interval_ms}"
        )
    with engine.state.lock:  # last: it is not older than the join that is over
        assignment = tuple(sorted(engine.state.partitions))
        lacking = tuple(
            sorted(
                key
                for key, item in engine.state.partitions.items()
                if item.status is not PositionStatus.FETCHING
            )
        )
    return ConsumerHealth(
        is_healthy=not problems,
        problems=tuple(problems),
        member_state=membership.state.value,
        member_id=membership.generation.member_id,
        generation_id=membership.generation.generation_id,
        coordinator_id=coordinator.number if coordinator else None,
        assignment=assignment,
        without_position=lacking,
        since_poll_ms=since_poll_ms,
        since_heartbeat_ms=None if beaten_ms is None else max(0, now_ms - beaten_ms),
        last_error=None if error is None else str(error),
    )


def metrics(operations: ConsumerOperations) -> ConsumerMetrics:
    """Counters since the beginning, and how far behind the consumer is now: None while it is not known."""
    engine = operations.engine
    with engine.state.lock:  # a partition may be revoked meanwhile
        found = [operations.lag(partition) for partition in engine.state.partitions]
    lags = [lag for lag in found if lag is not None]
    is_known = bool(found) and len(lags) == len(found)
    over = (each.phases for each in reversed(engine.history.entries()) if each.outcome == "done")
    last: dict[str, int] = next(over, {})
    return {
        "polls": operations.poller.poll_count,
        "records_consumed": engine.buffer.record_count,
        "bytes_fetched": engine.fetching.received_bytes,
        "fetch_requests": engine.fetching.request_count,
        "fetch_answers": engine.fetching.answer_count,
        "fetch_answers_ms": engine.fetching.answers_ms,
        "commits": engine.commits.count,
        "commit_failures": engine.commits.failure_count,
        "rebalances": engine.history.count,
        "join_ms": last.get("join"),
        "sync_ms": last.get("sync"),
        "coordinator_lookups": engine.coordinator.lookup_count,
        "assigned_partitions": len(found),
        "partitions_without_lag": len(found) - len(lags),
        "records_lag": sum(lags) if is_known else None,
        "records_lag_max": max(lags) if is_known else None,
    }
