"""A transaction coordinator that fits a page: enough to test what partitions ask of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.verification import ErrorCodes
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition


@dataclass
class SmallCoordinator:
    """Knows the partitions of each ongoing transaction, and answers when it is told to."""

    ongoing: dict[str, tuple[int, int, set[TopicPartition]]] = field(default_factory=dict)
    asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = field(default_factory=list)
    answers_with: ErrorCode = NO_ERROR  # in place of what it knows
    is_forgetful: bool = False  # its answer names no partition
    is_held: bool = False  # no answer before `release`
    held: list[tuple[HeldResponse[ErrorCodes], ErrorCodes]] = field(default_factory=list)

    def begin(self, transactional_id: str, producer_id: int, epoch: int, *partitions: TopicPartition) -> None:
        self.ongoing[transactional_id] = (producer_id, epoch, set(partitions))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> HeldResponse[ErrorCodes]:
        self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        answer: HeldResponse[ErrorCodes] = HeldResponse()
        found = self._answer(transactional_id, producer_id, producer_epoch, partitions, add)
        if self.is_held:
            self.held.append((answer, found))
        else:
            answer.keep(found)
        return answer

    def _answer(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        add: bool,
    ) -> ErrorCodes:
        if self.is_forgetful:
            return {}
        if self.answers_with is not NO_ERROR:
            return dict.fromkeys(partitions, self.answers_with)
        if transactional_id not in self.ongoing:
            return dict.fromkeys(partitions, ErrorCode.invalid_producer_id_mapping)
        known_id, known_epoch, added = self.ongoing[transactional_id]
        if producer_id != known_id:
            return dict.fromkeys(partitions, ErrorCode.invalid_producer_id_mapping)
        if epoch != known_epoch:
            return dict.fromkeys(partitions, ErrorCode.producer_fenced)
        if add:
            added.update(partitions)
        return {each: NO_ERROR if each in added else ErrorCode.transaction_abortable for each in partitions}

    def release(self) -> None:
        held, self.held = self.held, []
        for answer, found in held:
            answer.keep(found)
