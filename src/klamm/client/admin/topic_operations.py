"""Operations on topics and configurations, each as a future."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from klamm.client.admin import arguments, configs
from klamm.client.admin import topics as topic_calls
from klamm.client.admin.arguments import (
    ByPartition,
    Changes,
    ConfigChanges,
    ConfigResources,
    NewTopics,
    milliseconds,
)
from klamm.client.admin.model import ConfigEntry, CreatedTopic, Resource, TopicDescription
from klamm.client.admin.operations_host import OperationsHost
from klamm.client.admin.results import Results
from klamm.protocol.types import TopicPartition


class TopicOperations(OperationsHost):
    """Topics, their records, and configurations."""

    def create_topics(
        self,
        topics: NewTopics,
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, CreatedTopic]]:
        """Create topics: names (with the broker's defaults), `{"orders": 6}`, or `NewTopic` objects."""
        new, dry, due_ms = (
            arguments.new_topics(topics),
            arguments.flag(validate_only, "validate_only"),
            milliseconds(timeout),
        )
        return self._each(
            raise_errors,
            lambda calls: topic_calls.create_topics(calls, new, validate_only=dry, timeout_ms=due_ms),
        )

    def delete_topics(
        self, names: str | Iterable[str], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[str, None]]:
        """Delete topics and their records."""
        chosen, due_ms = arguments.texts(names, "topic"), milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: topic_calls.delete_topics(calls, chosen, timeout_ms=due_ms)
        )

    def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, None]]:
        """Increase topics to these numbers of partitions."""
        wanted, placed = arguments.totals(totals), arguments.placements(assignments)
        dry, due_ms = arguments.flag(validate_only, "validate_only"), milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: topic_calls.create_partitions(
                calls, wanted, assignments=placed, validate_only=dry, timeout_ms=due_ms
            ),
        )

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> Future[list[str]]:
        """The names of all topics, sorted; internal topics only on request."""
        hidden, due_ms = arguments.flag(internal, "internal"), milliseconds(timeout)
        return self._run(lambda calls: topic_calls.list_topics(calls, internal=hidden, timeout_ms=due_ms))

    def describe_topics(
        self,
        names: str | Iterable[str] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, TopicDescription]]:
        """Partitions, leaders and replicas of these topics, or of all. Never creates a topic."""
        chosen = None if names is None else arguments.texts(names, "topic")
        due_ms = milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: topic_calls.describe_topics(calls, chosen, timeout_ms=due_ms)
        )

    def wait_for_topics(self, names: str | Iterable[str], *, timeout: float | None = None) -> Future[None]:
        """Return when every partition of these topics has a leader."""
        chosen, due_ms = arguments.texts(names, "topic"), milliseconds(timeout)
        return self._run(lambda calls: topic_calls.wait_for_topics(calls, chosen, timeout_ms=due_ms))

    def delete_records(
        self,
        before: ByPartition[int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, int]]:
        """Delete the records before an offset (-1: all records); returns the new log start offsets."""
        limits = arguments.by_partition(before, "offsets", arguments.offset)
        due_ms = milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: topic_calls.delete_records(calls, limits, timeout_ms=due_ms)
        )

    def describe_configs(
        self,
        resource: Resource | str | ConfigResources,
        name: str | int | None = None,
        *,
        keys: str | Iterable[str] | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[tuple[Resource, str], dict[str, ConfigEntry]]]:
        """Settings of a topic, broker or group: `describe_configs("topic", "orders")["topic", "orders"]`.

        Or of several: `describe_configs([("topic", "orders"), ("broker", 1)])`.
        """
        chosen, due_ms = arguments.resources(resource, name), milliseconds(timeout)
        wanted = None if keys is None else arguments.texts(keys, "setting")
        return self._each(
            raise_errors,
            lambda calls: configs.describe_configs(calls, chosen, keys=wanted, timeout_ms=due_ms),
        )

    def alter_configs(
        self,
        resource: Resource | str | ConfigChanges,
        name: str | int | None = None,
        settings: Changes | None = None,
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[tuple[Resource, str], None]]:
        """Change single settings: `alter_configs("topic", "orders", {"retention.ms": 60000})`.

        None resets a setting to its default. Lists are extended and reduced by triples, as in
        `[("cleanup.policy", "append", "compact")]`. Several resources: `{("topic", "orders"): {...}, ...}`.
        """
        wanted = arguments.config_changes(resource, name, settings)
        dry, due_ms = arguments.flag(validate_only, "validate_only"), milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: configs.alter_configs(calls, wanted, validate_only=dry, timeout_ms=due_ms),
        )
