"""The group coordinator of one shard, as the runtime sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.coordinator.group.classic.decisions import CLASSIC_DECISIONS
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.decisions import CONSUMER_DECISIONS
from klamm.coordinator.group.delete_groups import delete_groups
from klamm.coordinator.group.inspect_groups import inspect_groups
from klamm.coordinator.group.list_groups import list_groups
from klamm.coordinator.group.loading import GroupLoader, set_up
from klamm.coordinator.group.mixed.decisions import MIXED_DECISIONS
from klamm.coordinator.group.notes import Note, apply
from klamm.coordinator.group.offsets.decisions import OFFSET_DECISIONS
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.refusals import as_error, error_response
from klamm.coordinator.group.remembered import GroupRecord
from klamm.coordinator.group.replay import replay_all
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest

# Any: each function takes the type under which it is listed.
DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    **CLASSIC_DECISIONS,
    **CONSUMER_DECISIONS,
    **MIXED_DECISIONS,
    **OFFSET_DECISIONS,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    InspectGroupsRequest: inspect_groups,
}


class GroupMachine:
    """Decisions about the groups of one shard, and their state."""

    __slots__ = ("_loader", "state", "written")

    def __init__(self, config: GroupConfig) -> None:
        self.state = GroupState(config)
        self._loader: GroupLoader | None = GroupLoader(self.state)
        self.written: Counter[type] = Counter()  # records since the start, by kind

    def decide(self, request: object, context: Context) -> GroupOutcome:
        return DECISIONS[type(request)](self.state, request, context)

    def encode(self, records: Sequence[GroupRecord], timestamp_ms: int) -> bytes:
        return encode_records(records, timestamp_ms, self.state.config.offsets_topic_compression_codec)

    def replay(self, records: Sequence[GroupRecord], offset: int) -> int:
        return replay_all(self.state, records, offset, self.written)

    def durable(self, offset: int) -> None:
        self.state.durable_offset = offset

    def apply(self, note: Note) -> None:
        apply(self.state, note)

    def load(self, batches: bytes) -> int:
        assert self._loader is not None, "loaded already"
        return self._loader.load(batches)

    def loaded(self, context: Context) -> GroupOutcome:
        self._loader = None
        return set_up(self.state, context)

    def unloaded(self, error_code: ErrorCode) -> GroupOutcome:
        """Requests that wait are answered, so that clients look for the new coordinator."""
        groups = self.state.groups.values()
        return Outcome(replies=[reply for group in groups for reply in group.membership.unload(error_code)])

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        return error_response(request, error_code)

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        return as_error(response, error_code)
