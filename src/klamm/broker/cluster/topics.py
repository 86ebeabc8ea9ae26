"""Changes of topics and configurations: one at a time, durable before they are visible."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from klamm.broker.cluster.following import ClusterFollower, topic_config
from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.refusal import Refusal, disk_is_full, no_such_topic
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.broker.services import RunBlocking
from klamm.config import ConfigError
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import (
    ClusterStore,
    ClusterStoreError,
    ConfigChange,
    ConfigResourceType,
    ConflictError,
    FencedError,
    PartitionRegistration,
    TopicState,
)

if TYPE_CHECKING:
    from klamm.broker.cluster.topic_plans import GrowthPlan, TopicPlan
    from klamm.protocol.messages.create_partitions import CreatePartitionsTopic
    from klamm.protocol.messages.create_topics import CreatableTopic

Result = TypeVar("Result")
Plan = TypeVar("Plan", "TopicPlan", "GrowthPlan")

_TRIES: Final = 5  # after so many conflicts with other brokers the client has to retry
_log = logging.getLogger(__name__)


class TopicManager:
    """Creates, grows and deletes topics, and changes configurations.

    A change that has begun is completed, also when the client has disconnected. When it returns, the other
    brokers have it, too: a client may go on with any of them.
    """

    def __init__(
        self,
        *,
        follower: ClusterFollower,
        image: ClusterImage,
        cluster: ClusterStore,
        partitions: PartitionRegistry,
        random: Random,
        run_blocking: RunBlocking,
        spread: Callable[[], Awaitable[None]],
    ) -> None:
        """`spread` waits until other brokers have applied what is in the store."""
        self._follower = follower
        self._image = image
        self._cluster = cluster
        self._partitions = partitions
        self._random = random
        self._run_blocking = run_blocking
        self._spread = spread
        self._turn = asyncio.Lock()
        self._change_count = 0
        self._running: set[asyncio.Task[Any]] = set()
        self._looking: tuple[asyncio.Task[bool], int] | None = None  # reads of the store before this one

    @property
    def config(self) -> BrokerConfig:
        """The broker's configuration as it is now."""
        return self._follower.config

    async def create(
        self, wanted: Sequence[CreatableTopic], *, validate_only: bool = False
    ) -> Mapping[str, TopicPlan | Refusal]:
        """Create topics; those without a refusal are served when this returns."""
        from klamm.broker.cluster.topic_plans import plan_topics  # noqa: PLC0415 - a start does not pay for plans

        def plan(names: Collection[str] | None) -> Mapping[str, TopicPlan | Refusal]:
            chosen = wanted if names is None else [topic for topic in wanted if topic.name in names]
            return plan_topics(self._image, self.config, chosen, self._random)

        if validate_only:
            return await self._planned(plan)
        return await self._alone(lambda: self._carry_out(plan, self._store_topic, self._check_topic))

    async def ensure(self, names: Sequence[str]) -> Mapping[str, Refusal]:
        """Create those of the topics that are missing; returns the refusals."""
        from klamm.broker.cluster.topic_plans import plan_auto_creation  # noqa: PLC0415 - as above

        def plan(retried: Collection[str] | None) -> Mapping[str, TopicPlan | Refusal]:
            missing = [name for name in names if name not in self._image.topics]
            chosen = missing if retried is None else [name for name in missing if name in retried]
            return plan_auto_creation(self._image, self.config, chosen, self._random)

        outcomes = await self._alone(lambda: self._carry_out(plan, self._store_topic, self._check_topic))
        return {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Refusal)}

    async def grow(
        self, wanted: Sequence[CreatePartitionsTopic], *, validate_only: bool = False
    ) -> Mapping[str, GrowthPlan | Refusal]:
        """Add partitions to topics."""
        from klamm.broker.cluster.topic_plans import plan_growth  # noqa: PLC0415 - as above

        def plan(names: Collection[str] | None) -> Mapping[str, GrowthPlan | Refusal]:
            chosen = wanted if names is None else [topic for topic in wanted if topic.name in names]
            return plan_growth(self._image, chosen, self._random)

        if validate_only:
            return await self._planned(plan)
        return await self._alone(lambda: self._carry_out(plan, self._store_partitions, self._check_growth))

    async def delete(self, topics: Sequence[TopicState]) -> Mapping[str, Refusal]:
        """Delete topics with their logs and configurations; returns the refusals."""
        return await self._alone(lambda: self._delete(topics))

    async def alter_topic(
        self, name: str, decide: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> Refusal | None:
        """Replace a topic's overrides by what `decide` makes of them; in effect from the next append on."""
        return await self._alone(lambda: self._alter_topic(name, decide))

    async def alter_broker(
        self, name: str, decide: Callable[[BrokerConfig], dict[str, str]]
    ) -> Refusal | None:
        """Change dynamic settings of this broker or, with name "", of all brokers."""
        return await self._alone(lambda: self._alter_broker(name, decide))

    async def alter_kept(
        self,
        resource_type: ConfigResourceType,
        name: str,
        decide: Callable[[Mapping[str, str]], dict[str, str]],
    ) -> Refusal | None:
        """Replace the overrides of a group or of client metrics by what `decide` makes of them."""
        return await self._alone(lambda: self._alter(resource_type, name, decide))

    async def alter_all_kept(
        self,
        resource_type: ConfigResourceType,
        decisions: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]],
    ) -> Mapping[str, Refusal]:
        """As `alter_kept` for many resources, in one change; returns the refusals."""
        if not decisions:
            return {}
        return await self._alone(lambda: self._alter_all(resource_type, decisions))

    async def close(self) -> None:
        """Wait for the changes that have begun."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _alone(self, change: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run one change at a time, each to completion, and wait until the other brokers have it."""
        change_count = self._change_count

        async def take_turn() -> Result:
            async with self._turn:
                return await change()

        result = await asyncio.shield(self._run(take_turn()))
        if self._change_count != change_count:
            await self._spread()
        return result

    def _run(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def look_again_for(self, limit_s: float) -> None:
        """Apply what is in the store by now. It goes on, if it takes longer: logs may have to be opened."""
        if (
            self._looking is None
            or self._looking[0].done()
            or self._looking[1] != self._follower.read_count  # begun: it may not see the latest change
        ):
            self._looking = self._run(self.look_again()), self._follower.read_count
        await asyncio.wait([self._looking[0]], timeout=limit_s)

    async def look_again(self) -> bool:
        """Whether other brokers have changed something that was not known here: a refusal may be wrong."""
        version = self._image.version
        try:
            await self._follower.catch_up()
        except ClusterStoreError as error:
            _log.warning("reading cluster metadata failed: %s", error)
        return self._image.version != version

    async def _planned(
        self, plan: Callable[[Collection[str] | None], Mapping[str, Plan | Refusal]]
    ) -> Mapping[str, Plan | Refusal]:
        outcomes = plan(None)
        if why := self._partitions.logs.why_full():
            # Not a topic whose logs cannot be made, and that has to be deleted again.
            full = disk_is_full(why)
            return {name: each if isinstance(each, Refusal) else full for name, each in outcomes.items()}
        has_refusals = any(isinstance(each, Refusal) for each in outcomes.values())
        return plan(None) if has_refusals and await self.look_again() else outcomes

    async def _carry_out(
        self,
        plan: Callable[[Collection[str] | None], Mapping[str, Plan | Refusal]],
        store: Callable[[Plan], None],
        check: Callable[[Plan], Coroutine[Any, Any, Refusal | None]],
    ) -> Mapping[str, Plan | Refusal]:
        """Decide, make it durable, make it visible; decide again after a conflict with another broker."""
        outcomes = dict(await self._planned(plan))
        pending = [(name, each) for name, each in outcomes.items() if not isinstance(each, Refusal)]
        for _ in range(_TRIES):
            stored = await self._stored(store, [each for _, each in pending])
            lost: list[str] = []
            for (name, each), failure in zip(pending, stored, strict=True):
                if isinstance(failure, ConflictError):
                    lost.append(name)
                    continue
                refusal = await check(each) if failure is None else _not_stored(failure)
                if refusal is not None:
                    outcomes[name] = refusal
            if not lost:
                return outcomes
            again = plan(lost)
            outcomes |= again
            pending = [(name, each) for name, each in again.items() if not isinstance(each, Refusal)]
        return outcomes | {name: _LOST_EVERY_RACE for name, _ in pending}

    async def _stored(
        self, store: Callable[[Result], None], items: Sequence[Result]
    ) -> Sequence[ConflictError | ClusterStoreError | FencedError | None]:
        """Store each item, then show it; a change that cannot be read back counts as failed."""
        if not items:
            return []
        failures = await self._run_blocking(_store_all, store, items)
        if None in failures:
            self._change_count += 1
        try:
            await self._follower.catch_up()
        except ClusterStoreError as error:
            return [failure or error for failure in failures]
        return failures

    def _store_topic(self, plan: TopicPlan) -> None:
        self._cluster.create_topic(plan.topic, plan.configs)

    async def _check_topic(self, plan: TopicPlan) -> Refusal | None:
        """A topic without its logs is removed again: the client gets an error, and may retry."""
        topic = plan.topic
        if self._all_served(topic, topic.partitions):
            _log.info("topic %s created with %d partition(s)", topic.name, len(topic.partitions))
            return None
        await self._stored(self._forget_topic, [topic])
        return Refusal(
            ErrorCode.kafka_storage_error,
            f"The log of topic '{topic.name}' cannot be created: see the broker's log.",
        )

    def _store_partitions(self, plan: GrowthPlan) -> None:
        self._cluster.add_partitions(plan.topic.name, plan.topic.topic_id, plan.added)

    async def _check_growth(self, plan: GrowthPlan) -> Refusal | None:
        _log.info("topic %s has %d more partition(s)", plan.topic.name, len(plan.added))
        return None

    def _all_served(self, topic: TopicState, partitions: Sequence[PartitionRegistration]) -> bool:
        """Whether the partitions that this broker leads can be served."""
        return all(
            served is None or served.error_code is ErrorCode.none
            for each in partitions
            for served in [self._partitions.get(topic.name, each.partition)]
        )

    async def _delete(self, topics: Sequence[TopicState]) -> Mapping[str, Refusal]:
        refusals: dict[str, Refusal] = {}
        present: list[TopicState] = []
        for topic in topics:
            if self._image.topic_by_id(topic.topic_id) is not None:
                present.append(topic)
            else:
                refusals[topic.name] = no_such_topic(topic.name)
        stored = await self._stored(self._forget_topic, present)
        for topic, failure in zip(present, stored, strict=True):
            if isinstance(failure, ConflictError):
                refusals[topic.name] = no_such_topic(topic.name)  # another broker was first
            elif failure is not None:
                refusals[topic.name] = _not_stored(failure)
        return refusals

    def _forget_topic(self, topic: TopicState) -> None:
        self._cluster.delete_topic(topic.name, topic.topic_id)

    async def _alter_topic(
        self, name: str, decide: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> Refusal | None:
        def altered(present: Mapping[str, str]) -> dict[str, str] | Refusal:
            made = decide(present)
            if name not in self._image.topics:
                return no_such_topic(name)
            self.config.topic_config(made)
            return made

        refusal = await self._alter(ConfigResourceType.TOPIC, name, altered)
        if refusal is not None and name not in self._image.topics and await self.look_again():
            return await self._alter(ConfigResourceType.TOPIC, name, altered)
        return refusal

    async def _alter_broker(
        self, name: str, decide: Callable[[BrokerConfig], dict[str, str]]
    ) -> Refusal | None:
        def altered(_: Mapping[str, str]) -> dict[str, str] | Refusal:
            made = decide(self.config)
            return self.contradicted_topic(name, made) or made

        return await self._alter(ConfigResourceType.BROKER, name, altered)

    async def _alter(
        self,
        resource_type: ConfigResourceType,
        name: str,
        decide: Callable[[Mapping[str, str]], dict[str, str] | Refusal],
    ) -> Refusal | None:
        for _ in range(_TRIES):
            present = self._image.configs(resource_type, name)
            altered = decide(present)
            if isinstance(altered, Refusal):
                return altered
            failure = await self._replace_configs(resource_type, name, present, altered)
            if failure is None:
                return None
            if not isinstance(failure, ConflictError):
                return _not_stored(failure)
        return _LOST_EVERY_RACE

    async def _alter_all(
        self,
        resource_type: ConfigResourceType,
        decisions: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]],
    ) -> Mapping[str, Refusal]:
        def store(names: Sequence[str]) -> None:
            found = {name: self._image.configs(resource_type, name) for name in names}
            changes = [
                ConfigChange(name, altered, dict(present))
                for name, present in found.items()
                if (altered := decisions[name](present)) != present
            ]
            lost[:] = self._cluster.replace_all_configs(resource_type, changes) if changes else ()

        lost: list[str] = []
        pending = list(decisions)
        for _ in range(_TRIES):
            (failure,) = await self._stored(store, [pending])
            if failure is not None:
                return dict.fromkeys(pending, _not_stored(failure))
            pending, lost = lost, []
            if not pending:
                return {}
        return dict.fromkeys(pending, _LOST_EVERY_RACE)

    def contradicted_topic(self, name: str, altered: Mapping[str, str]) -> Refusal | None:
        """A topic whose own settings contradict new ones of this broker or, with name "", of all."""
        layers = self.config.layers
        config = self.config.changed(
            dynamic_default=layers.dynamic_default if name else altered,
            dynamic=altered if name else layers.dynamic,
        )
        try:
            for topic in self._image.topics:
                topic_config(config, self._image, topic)
        except ConfigError as error:
            return Refusal(ErrorCode.invalid_request, str(error))
        return None

    async def _replace_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        present: Mapping[str, str],
        altered: Mapping[str, str],
    ) -> Exception | None:
        def replace(configs: Mapping[str, str]) -> None:
            self._cluster.replace_configs(resource_type, name, configs, expected=dict(present))

        (failure,) = await self._stored(replace, [altered])
        return failure


_LOST_EVERY_RACE: Final = Refusal(
    ErrorCode.request_timed_out, "Other brokers keep changing the same thing: try again."
)


def _store_all(
    store: Callable[[Result], None], items: Sequence[Result]
) -> list[ConflictError | ClusterStoreError | FencedError | None]:
    """Store each item, also after a failure; blocks."""
    failures: list[ConflictError | ClusterStoreError | FencedError | None] = []
    for item in items:
        try:
            store(item)
        except (ConflictError, ClusterStoreError, FencedError) as failure:
            failures.append(failure)
        else:
            failures.append(None)
    return failures


def _not_stored(failure: Exception) -> Refusal:
    _log.error("writing cluster metadata failed: %s", failure)
    return Refusal(ErrorCode.kafka_storage_error, f"Writing cluster metadata failed: {failure}")
