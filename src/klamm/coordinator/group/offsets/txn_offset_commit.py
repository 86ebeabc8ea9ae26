"""TxnOffsetCommit: offsets that take effect when the producer's transaction commits.

Version 2 brings the leader epoch, 3 generation, member and instance id (KIP-447), 5 makes the request its own
AddOffsetsToTxn. Which topics exist, and whether the producer has such a transaction, is checked before a
request reaches this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from klamm.coordinator.group.append_errors import commit_error
from klamm.coordinator.group.events import GroupEvent
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.offsets.metadata import screen_metadata
from klamm.coordinator.group.offsets.mixing import report_mixing
from klamm.coordinator.group.offsets.notes import TxnOffsetsStaged
from klamm.coordinator.group.offsets.signals import TxnCommitRefused
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.remembered import PendedBlock
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.types import ZERO_ID
from klamm.records.layout import CommitBlock


def txn_offset_commit(state: GroupState, request: TxnOffsetCommitRequest, context: Context) -> GroupOutcome:
    """Write the offsets as one transactional batch; they stay pending until the transaction's marker.

    As in Kafka, this does not renew the member's session.
    """
    group = state.groups.get(request.group_id)
    error_code = _refusal(group, request)
    if error_code in (ErrorCode.stale_member_epoch, ErrorCode.illegal_generation):
        # As in Kafka, for clients that know of generations only.
        error_code = NO_ERROR if _holds_all(state, group, request) else ErrorCode.illegal_generation
    if error_code is not NO_ERROR:
        return reply(context, refused_txn_commit(request, error_code))
    response, records = _pended(state, request, context)
    if not records:
        return reply(context, response)
    notes: list[Note] = [TxnOffsetsStaged(request.group_id)]
    events: list[GroupEvent] = []
    if group is not None and group.is_mixing(group.plain_commit_generation):
        note, event = report_mixing(group, request.member_id, context)
        notes.append(note)
        events.append(event)
    return Outcome(
        records=records,
        notes=notes,
        events=events,
        replies=((context.token, response),),
        if_refused=partial(TxnCommitRefused, response),
    )


def _refusal(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation = request.generation_id
    if group is None:
        return NO_ERROR if generation < 0 else ErrorCode.illegal_generation
    return group.membership.offset_commit_error(
        generation, request.member_id, request.group_instance_id, is_transactional=True
    )


def _holds_all(state: GroupState, group: Group | None, request: TxnOffsetCommitRequest) -> bool:
    """Whether a member with an earlier epoch has held all these partitions since then."""
    if group is None or state.topics is None:
        return False
    for topic in request.topics:
        known = state.topics.by_name(topic.name)
        for each in topic.partitions:
            if known is None or not group.membership.holds_since(
                request.member_id, request.generation_id, known.topic_id, each.partition_index
            ):
                return False
    return True


def _pended(
    state: GroupState, request: TxnOffsetCommitRequest, context: Context
) -> tuple[TxnOffsetCommitResponse, list[PendedBlock]]:
    """The answer if the append succeeds, and the records; too much metadata refuses one partition."""
    topics: list[TxnOffsetCommitResponseTopic] = []
    records: list[PendedBlock] = []
    for topic in request.topics:
        commits, refused = screen_metadata(topic.partitions, state.config.offset_metadata_max_bytes)
        answers = [TxnOffsetCommitResponsePartition(asked.partition_index) for asked in topic.partitions]
        for answer, is_refused in zip(answers, refused or (), strict=False):
            if is_refused:
                answer.error_code = ErrorCode.offset_metadata_too_large
        topics.append(TxnOffsetCommitResponseTopic(topic.name, answers))
        if commits:
            # Without a topic id, which Kafka does not write in a transaction.
            block = CommitBlock(request.group_id, topic.name, ZERO_ID, commits, context.timestamp_ms, -1)
            records.append(PendedBlock(block, request.producer_id, request.producer_epoch))
    return TxnOffsetCommitResponse(topics=topics), records


def txn_commit_refused(state: GroupState, signal: TxnCommitRefused, context: Context) -> GroupOutcome:
    """The log rejected the batch: nothing is pending."""
    return reply(context, failed_txn_commit(signal.response, commit_error(signal.error_code)))


def refused_txn_commit(request: TxnOffsetCommitRequest, error_code: ErrorCode) -> TxnOffsetCommitResponse:
    """One error for every partition, with a code that the request's version has."""
    if error_code is ErrorCode.coordinator_load_in_progress and not request.knows_load_in_progress:
        error_code = ErrorCode.coordinator_not_available
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(asked.partition_index, error_code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def failed_txn_commit(response: TxnOffsetCommitResponse, error_code: ErrorCode) -> TxnOffsetCommitResponse:
    """The answer when accepted offsets could not be written; what was refused keeps its own error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(answer.partition_index, answer.error_code or error_code)
                    for answer in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


_VERIFICATION_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}


def unverified_txn_commit(request: TxnOffsetCommitRequest, error_code: ErrorCode) -> TxnOffsetCommitResponse:
    """The answer when the transaction coordinator does not have the group in this transaction (KIP-890)."""
    if error_code is ErrorCode.transaction_abortable and not request.knows_transaction_abortable:
        error_code = ErrorCode.invalid_txn_state
    return refused_txn_commit(request, _VERIFICATION_ERRORS.get(error_code, error_code))
