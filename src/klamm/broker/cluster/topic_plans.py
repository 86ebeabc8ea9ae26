"""Plans for requested topics and partitions, or the errors that prevent them. Nothing is changed here.

Checks are in Kafka's order, so that a request with several faults gets the same error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NoReturn, TypeVar

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.internal_topics import internal_topic
from klamm.broker.cluster.placement import leader_counts, place_partitions
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_names import (
    FORBIDDEN_TOPIC,
    collision_key,
    is_internal,
    name_problem,
)
from klamm.broker.config.broker_config import BrokerConfig
from klamm.config import ConfigError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import CreatePartitionsTopic
from klamm.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from klamm.storage.cluster import BrokerState, PartitionRegistration, TopicState, new_topic_id
from klamm.storage.topic_config import TopicConfig

Name = TypeVar("Name", str, bytes)

MOST_PARTITIONS_PER_REQUEST: Final = 10_000
_TOO_MANY: Final = "Excessively large number of partitions per request."


class RefusedError(Exception):
    """A check failed; carries its refusal up to the plan."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _refuse(error_code: ErrorCode, message: str) -> NoReturn:
    raise RefusedError(Refusal(error_code, message))


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that passed every check."""

    topic: TopicState
    configs: Mapping[str, str]
    config: TopicConfig
    replication_factor: int


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """Partitions that passed every check."""

    topic: TopicState
    added: tuple[PartitionRegistration, ...]


def plan_topics(
    image: ClusterImage, config: BrokerConfig, wanted: Sequence[CreatableTopic], random: Random
) -> dict[str, TopicPlan | Refusal]:
    """A plan or a refusal for each name, in the order of the request."""
    repeated = duplicates(topic.name for topic in wanted)
    named_once = [topic for topic in wanted if topic.name not in repeated]
    are_too_many = _partitions_wanted(named_once, config) > MOST_PARTITIONS_PER_REQUEST
    taken = {collision_key(name): name for name in image.topics}
    plans: dict[str, TopicPlan | Refusal] = {}
    for topic in wanted:
        if topic.name in repeated:
            plans[topic.name] = Refusal(ErrorCode.invalid_request, "Duplicate topic name.")
            continue
        if are_too_many:
            plans[topic.name] = Refusal(ErrorCode.policy_violation, _TOO_MANY)
            continue
        try:
            _check_creatable(image, topic.name)
            plans[topic.name] = _plan_topic(image, config, topic, taken, random)
        except RefusedError as refused:
            plans[topic.name] = refused.refusal
        else:
            taken[collision_key(topic.name)] = topic.name
    return plans


def plan_auto_creation(
    image: ClusterImage, config: BrokerConfig, names: Iterable[str], random: Random
) -> dict[str, TopicPlan | Refusal]:
    """Plans for topics given only by name: with defaults, or the shape of an internal topic."""
    taken = {collision_key(name): name for name in image.topics}
    plans: dict[str, TopicPlan | Refusal] = {}
    budget = MOST_PARTITIONS_PER_REQUEST
    for name in names:
        wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        configs: Mapping[str, str] = {}
        if is_internal(name):
            internal = internal_topic(name, config)
            wanted.num_partitions, wanted.replication_factor, configs = (
                internal.num_partitions,
                min(internal.replication_factor, len(image.running_brokers())),
                internal.configs,
            )
        try:
            if name == FORBIDDEN_TOPIC:
                _refuse(
                    ErrorCode.unknown_topic_or_partition, f"There is no topic {FORBIDDEN_TOPIC} in klamm."
                )
            plan = _plan_topic(image, config, wanted, taken, random, configs)
            budget -= len(plan.topic.partitions)
            if budget < 0:
                _refuse(ErrorCode.policy_violation, _TOO_MANY)
            plans[name] = plan
        except RefusedError as refused:
            plans[name] = refused.refusal
        else:
            taken[collision_key(name)] = name
    return plans


def _partitions_wanted(wanted: Sequence[CreatableTopic], config: BrokerConfig) -> int:
    return sum(
        len(topic.assignments)
        or (config.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions))
        for topic in wanted
    )


def duplicates(names: Iterable[Name]) -> set[Name]:
    """The names that occur more than once."""
    seen: set[Name] = set()
    repeated: set[Name] = set()
    for name in names:
        (repeated if name in seen else seen).add(name)
    return repeated


def _check_creatable(image: ClusterImage, name: str) -> None:
    if name == FORBIDDEN_TOPIC:
        _refuse(ErrorCode.invalid_request, f"Creation of internal topic {FORBIDDEN_TOPIC} is prohibited.")
    if is_internal(name):
        _refuse(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' is internal: the broker creates it by itself when it is first needed.",
        )
    if name in image.topics:
        _refuse(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _plan_topic(
    image: ClusterImage,
    config: BrokerConfig,
    wanted: CreatableTopic,
    taken: Mapping[str, str],
    random: Random,
    configs: Mapping[str, str] | None = None,
) -> TopicPlan:
    problem = name_problem(wanted.name)
    if problem is not None:
        _refuse(ErrorCode.invalid_topic_exception, problem)
    other = taken.get(collision_key(wanted.name))
    if other is not None:
        _refuse(
            ErrorCode.invalid_topic_exception,
            f"Topic '{wanted.name}' collides with existing topic: {other}",
        )
    overrides = _overrides(wanted) if configs is None else configs
    try:
        topic_config = config.topic_config(overrides)
    except ConfigError as error:
        raise RefusedError(Refusal(ErrorCode.invalid_config, str(error))) from error
    replicas = _replicas(image, config, wanted, random)
    topic = TopicState(wanted.name, new_topic_id(random), _first_leaders(image, 0, replicas))
    return TopicPlan(topic, overrides, topic_config, len(replicas[0]))


def _overrides(wanted: CreatableTopic) -> dict[str, str]:
    overrides = {setting.name: setting.value for setting in wanted.configs}
    without_value = [name for name, value in overrides.items() if value is None]
    if without_value:
        _refuse(
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: " + ",".join(without_value),
        )
    return {name: value for name, value in overrides.items() if value is not None}


def _replicas(
    image: ClusterImage, config: BrokerConfig, wanted: CreatableTopic, random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition as the client requested them."""
    if wanted.assignments:
        if wanted.replication_factor != -1:
            _refuse(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if wanted.num_partitions != -1:
            _refuse(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return _manual_replicas(image, wanted.assignments)
    if wanted.replication_factor < -1 or wanted.replication_factor == 0:
        _refuse(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.num_partitions < -1 or wanted.num_partitions == 0:
        _refuse(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = config.num_partitions if wanted.num_partitions == -1 else wanted.num_partitions
    factor = (
        config.default_replication_factor if wanted.replication_factor == -1 else wanted.replication_factor
    )
    return _placed(image, count, factor, random)


def _manual_replicas(
    image: ClusterImage, assignments: Sequence[CreatableReplicaAssignment]
) -> list[tuple[int, ...]]:
    by_index: dict[int, tuple[int, ...]] = {}
    for assignment in assignments:
        if assignment.partition_index in by_index:
            _refuse(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        by_index[assignment.partition_index] = tuple(assignment.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        _refuse(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    rows = [by_index[index] for index in range(len(by_index))]
    _check_rows(image, rows, len(rows[0]))
    return rows


def _check_rows(image: ClusterImage, rows: Iterable[tuple[int, ...]], factor: int) -> None:
    for row in rows:
        problem = row_problem(image, row, factor)
        if problem is not None:
            _refuse(ErrorCode.invalid_replica_assignment, problem)


def row_problem(image: ClusterImage, row: tuple[int, ...], factor: int) -> str | None:
    """Why a partition cannot have these replicas; None when it can."""
    if not row:
        return "The manual partition assignment includes an empty replica list."
    for position, broker_id in enumerate(row):
        if broker_id not in image.brokers:
            return (
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
        if broker_id in row[:position]:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
    if len(row) != factor:
        return (
            f"The manual partition assignment includes a partition with {len(row)} replica(s), but this is "
            f"not consistent with previous partitions, which have {factor} replica(s)."
        )
    if all(image.brokers[broker_id].state is not BrokerState.RUNNING for broker_id in row):
        return f"All brokers specified in the manual partition assignment are fenced or shutting down: {row}"
    return None


def _placed(image: ClusterImage, count: int, factor: int, random: Random) -> list[tuple[int, ...]]:
    registered = image.brokers.values()
    if factor > len(registered):
        _refuse(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(registered)} broker(s) are registered.",
        )
    running = {each.broker_id: each.rack for each in registered if each.state is BrokerState.RUNNING}
    return place_partitions(
        running,
        leader_counts(image.topics.values(), running),
        count,
        factor,
        random,
        fenced=[each.broker_id for each in registered if each.broker_id not in running],
    )


def _first_leaders(
    image: ClusterImage, first: int, replicas: Sequence[tuple[int, ...]]
) -> tuple[PartitionRegistration, ...]:
    return tuple(
        PartitionRegistration(first + index, row, leader_id=_first_leader(image, row), leader_epoch=0)
        for index, row in enumerate(replicas)
    )


def _first_leader(image: ClusterImage, row: tuple[int, ...]) -> int:
    """The first broker of a row that runs."""
    return next(each for each in row if image.brokers[each].state is BrokerState.RUNNING)


def plan_growth(
    image: ClusterImage, wanted: Sequence[CreatePartitionsTopic], random: Random
) -> dict[str, GrowthPlan | Refusal]:
    """More partitions for topics: a plan or a refusal for each name, in the order of the request."""
    repeated = duplicates(topic.name for topic in wanted)
    budget = MOST_PARTITIONS_PER_REQUEST
    plans: dict[str, GrowthPlan | Refusal] = {}
    for topic in wanted:
        if topic.name in repeated:
            plans[topic.name] = Refusal(ErrorCode.invalid_request, "Duplicate topic name.")
            continue
        try:
            state = _growing(image, topic)
            budget -= topic.count - len(state.partitions)
            if budget < 0:
                _refuse(ErrorCode.policy_violation, _TOO_MANY)
            replicas = _added_replicas(image, state, topic, random)
            plans[topic.name] = GrowthPlan(state, _first_leaders(image, len(state.partitions), replicas))
        except RefusedError as refused:
            plans[topic.name] = refused.refusal
    return plans


def _growing(image: ClusterImage, wanted: CreatePartitionsTopic) -> TopicState:
    state = image.topic(wanted.name)
    if state is None:
        _refuse(ErrorCode.unknown_topic_or_partition, f"The topic '{wanted.name}' does not exist.")
    present = len(state.partitions)
    if wanted.count == present:
        _refuse(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        _refuse(
            ErrorCode.invalid_partitions,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an "
            "increase.",
        )
    if is_internal(wanted.name):
        _refuse(
            ErrorCode.invalid_topic_exception,
            f"Topic '{wanted.name}' is internal: what its records belong to depends on its partition count.",
        )
    return state


def _added_replicas(
    image: ClusterImage, state: TopicState, wanted: CreatePartitionsTopic, random: Random
) -> list[tuple[int, ...]]:
    count = wanted.count - len(state.partitions)
    factor = len(state.partitions[0].replicas)
    if wanted.assignments is None:
        return _placed(image, count, factor, random)
    if len(wanted.assignments) != count:
        _refuse(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {count} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified.",
        )
    rows = [tuple(row.broker_ids) for row in wanted.assignments]
    _check_rows(image, rows, factor)
    return rows
