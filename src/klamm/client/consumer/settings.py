"""The consumer's settings, checked together."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from klamm.assignors.base import Assignor, RebalanceProtocol
from klamm.assignors.registry import common_protocol, load_assignors
from klamm.client.callables import takes
from klamm.client.config import CONSUMER, ClientConfig, check_together
from klamm.client.interceptors import checked
from klamm.client.serializers import WithTopic, serde_of, warn_of_unused
from klamm.client.statistics import checked_callback
from klamm.config import ConfigError
from klamm.errors import InvalidGroupIdError

log = logging.getLogger(__name__)

Deserializer = Callable[[bytes | None], Any] | WithTopic
OBJECTS: Final = frozenset(
    {
        "key.deserializer",
        "value.deserializer",
        "partition.assignment.strategy",
        "offset.store",
        "on.deserialize.error",
        "start.at",
        "interceptors",
        "stats.callback",
    }
)
CONSUMER_PROTOCOL: Final = "consumer"
OF_CLASSIC: Final = {  # with group.protocol=consumer the coordinator decides these
    "session.timeout.ms": "set group.consumer.session.timeout.ms of the broker, or "
    "consumer.session.timeout.ms of the group",
    "heartbeat.interval.ms": "set group.consumer.heartbeat.interval.ms of the broker, or "
    "consumer.heartbeat.interval.ms of the group",
    "partition.assignment.strategy": "the coordinator assigns; set group.remote.assignor, one of the "
    "broker's group.consumer.assignors",
}
OF_CONSUMER: Final = {"group.remote.assignor": "members assign; set partition.assignment.strategy"}
INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What the consumer goes by."""

    group_id: str | None
    group_protocol: str  # classic, consumer
    remote_assignor: str | None
    group_instance_id: str | None
    client_id: str
    client_rack: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    assignors: tuple[Assignor, ...]
    protocol: RebalanceProtocol
    is_auto_commit: bool
    commits_stored: bool  # enable.auto.offset.store=false
    auto_commit_interval_ms: int
    reset_policy: str  # earliest, latest, none
    is_read_committed: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    checks_crcs: bool
    excludes_internal_topics: bool
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    on_deserialize_error: Any  # "raise", "skip" or a callable
    offset_store: Any
    iteration_timeout_ms: int  # -1: iterating never ends
    interceptors: tuple[Any, ...]
    statistics_interval_ms: int
    statistics_callback: Any
    start_at: Any  # where a partition without a position begins: an offset, a time, or by partition
    shows_markers: bool = False  # of transactions, as records: see `client.consumer.markers`


def parse(
    config: Mapping[str, Any] | None, keywords: Mapping[str, Any], number: int
) -> tuple[ClientConfig, ConsumerSettings]:
    """Read and check settings; raises ConfigError or InvalidGroupIdError."""
    parsed = ClientConfig.parse(CONSUMER, config, keywords, object_names=OBJECTS, has_serializers=True)
    warn_of_unused(parsed.objects, ("key.deserializer", "value.deserializer"))
    values = parsed.values
    group_id = values.optional_text("group.id")
    if group_id is not None and not group_id.strip():
        raise InvalidGroupIdError(f"group.id={group_id!r}: expected a name, or remove it")
    instance_id = values.optional_text("group.instance.id")
    _check(parsed, instance_id)
    if values.text("group.protocol") != CONSUMER_PROTOCOL:
        _check_session(parsed)
    strategies: Any = ()
    group_protocol = values.text("group.protocol")
    if group_protocol == CONSUMER_PROTOCOL:
        _warn_of(parsed.given | _given_objects(config, keywords), OF_CLASSIC, group_protocol)
    else:
        _warn_of(parsed.given, OF_CONSUMER, group_protocol)
        strategies = _strategies(config, keywords)
    if strategies is None:
        strategies = list(values.words("partition.assignment.strategy"))
    assignors = tuple(load_assignors(strategies, {**values, **parsed.objects})) if strategies else ()
    settings = ConsumerSettings(
        group_id=group_id,
        group_protocol=group_protocol,
        remote_assignor=values.optional_text("group.remote.assignor"),
        group_instance_id=instance_id,
        client_id=values.text("client.id") or f"consumer-{group_id or 'none'}-{instance_id or number}",
        client_rack=values.text("client.rack"),
        session_timeout_ms=values.integer("session.timeout.ms"),
        heartbeat_interval_ms=values.integer("heartbeat.interval.ms"),
        max_poll_interval_ms=values.integer("max.poll.interval.ms"),
        max_poll_records=values.integer("max.poll.records"),
        assignors=assignors,
        protocol=common_protocol(assignors) if assignors else RebalanceProtocol.EAGER,
        is_auto_commit=_is_auto_commit(parsed, group_id),
        commits_stored=not values.boolean("enable.auto.offset.store"),
        auto_commit_interval_ms=values.integer("auto.commit.interval.ms"),
        reset_policy=values.text("auto.offset.reset"),
        is_read_committed=values.text("isolation.level") == "read_committed",
        fetch_min_bytes=values.integer("fetch.min.bytes"),
        fetch_max_bytes=values.integer("fetch.max.bytes"),
        max_partition_fetch_bytes=values.integer("max.partition.fetch.bytes"),
        fetch_max_wait_ms=values.integer("fetch.max.wait.ms"),
        checks_crcs=values.boolean("check.crcs"),
        excludes_internal_topics=values.boolean("exclude.internal.topics"),
        request_timeout_ms=values.integer("request.timeout.ms"),
        default_api_timeout_ms=values.integer("default.api.timeout.ms"),
        retry_backoff_ms=values.integer("retry.backoff.ms"),
        retry_backoff_max_ms=values.integer("retry.backoff.max.ms"),
        key_deserializer=_deserializer("key.deserializer", parsed),
        value_deserializer=_deserializer("value.deserializer", parsed),
        on_deserialize_error=parsed.objects.get("on.deserialize.error", "raise"),
        offset_store=parsed.objects.get("offset.store"),
        start_at=parsed.objects.get("start.at"),
        iteration_timeout_ms=values.integer("consumer.timeout.ms"),
        interceptors=checked(parsed.objects.get("interceptors"), ("on_consume", "on_commit")),
        statistics_interval_ms=values.integer("statistics.interval.ms"),
        statistics_callback=checked_callback(
            parsed.objects.get("stats.callback"), values.integer("statistics.interval.ms")
        ),
    )
    _check_objects(settings)
    _check_broadcast(parsed, settings)
    return parsed, settings


def _warn_of(given: Iterable[str], settings: Mapping[str, str], group_protocol: str) -> None:
    """Tell which settings have no effect with this protocol, and what to set in their place."""
    for name in sorted(set(given).intersection(settings)):
        log.warning("%s has no effect with group.protocol=%s: %s", name, group_protocol, settings[name])


def _given_objects(*sources: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset({"partition.assignment.strategy"} if _strategies(*sources) is not None else ())


def _strategies(*sources: Mapping[str, Any] | None) -> Any:
    """The assignors as given: a list setting would hide a name given twice."""
    given = None
    for source in sources:
        for name in ("partition.assignment.strategy", "partition_assignment_strategy"):
            given = (source or {}).get(name, given)
    return given


def _check(parsed: ClientConfig, instance_id: str | None) -> None:
    values = parsed.values
    if instance_id is not None and (not INSTANCE_ID.fullmatch(instance_id) or instance_id in {".", ".."}):
        raise ConfigError(
            "group.instance.id",
            f"group.instance.id={instance_id}: expected 1 to 249 letters, digits, or . - _",
        )
    wait_ms, request_ms = values.integer("fetch.max.wait.ms"), values.integer("request.timeout.ms")
    check_together(
        wait_ms < request_ms,
        "fetch.max.wait.ms",
        f"fetch.max.wait.ms={wait_ms} must be below request.timeout.ms={request_ms}",
    )
    api_ms = values.integer("default.api.timeout.ms")
    check_together(
        api_ms >= request_ms,
        "default.api.timeout.ms",
        f"default.api.timeout.ms={api_ms} must not be below request.timeout.ms={request_ms}",
    )


def _check_session(parsed: ClientConfig) -> None:
    """What members of the classic protocol set themselves."""
    values = parsed.values
    heartbeat_ms = values.integer("heartbeat.interval.ms")
    session_ms = values.integer("session.timeout.ms")
    check_together(
        heartbeat_ms < session_ms,
        "heartbeat.interval.ms",
        f"heartbeat.interval.ms={heartbeat_ms} must be below session.timeout.ms={session_ms}: "
        f"write at most {session_ms // 3}",
    )
    if heartbeat_ms > session_ms / 3:
        log.warning("heartbeat.interval.ms=%d is more than a third of the session timeout", heartbeat_ms)
    if values.integer("max.poll.interval.ms") < session_ms:
        log.warning("max.poll.interval.ms is below session.timeout.ms=%d", session_ms)


def _is_auto_commit(parsed: ClientConfig, group_id: str | None) -> bool:
    wanted = parsed.values.boolean("enable.auto.commit")
    if group_id is not None or not wanted:
        return wanted
    check_together(
        "enable.auto.commit" not in parsed.given,
        "enable.auto.commit",
        "enable.auto.commit=true commits for a group: set group.id too",
    )
    return False


def _deserializer(name: str, parsed: ClientConfig) -> Deserializer | None:
    given = parsed.objects.get(name)
    if given is None:
        return None
    serde = serde_of(name, given, parsed.objects)
    if serde is not None:
        deserialize = serde.deserialize
        return WithTopic(lambda topic, data: None if data is None else deserialize(topic, data))
    if not callable(given) or not takes(given, 1):
        raise ConfigError(
            name, f"{name}={given!r}: give a function of bytes or None, a name as 'json', or a Serde"
        )
    return given  # type: ignore[no-any-return]  # checked as far as it can be


def _check_objects(settings: ConsumerSettings) -> None:
    """Check values that are not text."""
    handler = settings.on_deserialize_error
    check_together(
        handler in ("raise", "skip") or (callable(handler) and takes(handler, 1)),
        "on.deserialize.error",
        f"on.deserialize.error={handler!r}: write raise or skip, or give a function of the error",
    )
    store = settings.offset_store
    check_together(
        store is None or (hasattr(store, "load") and hasattr(store, "save")),
        "offset.store",
        f"offset.store={store!r}: give FileOffsetStore(directory), SqliteOffsetStore(file) or one like them",
    )
    start = settings.start_at
    for place in start.values() if isinstance(start, Mapping) else (start,):
        check_together(
            place is None
            or place in ("earliest", "latest")
            or isinstance(place, datetime)
            or (isinstance(place, int) and place >= 0),
            "start.at",
            f"start.at={place!r}: write earliest, latest, an offset from 0 on or a datetime, "
            "or a dictionary of them by TopicPartition",
        )


def _check_broadcast(parsed: ClientConfig, settings: ConsumerSettings) -> None:
    """Members of a broadcast group all own everything: their commits to the group overwrite each other."""
    if not any(assignor.name == "broadcast" for assignor in settings.assignors):
        return
    check_together(
        settings.offset_store is not None or not settings.is_auto_commit,
        "offset.store",
        "broadcast members overwrite each other's commits: give offset_store=FileOffsetStore(directory), "
        "or enable.auto.commit=false",
    )
    check_together(
        bool(settings.group_instance_id or parsed.values.text("client.id")),
        "client.id",
        "a broadcast member stores its offsets locally: set a stable group.instance.id or client.id",
    )
