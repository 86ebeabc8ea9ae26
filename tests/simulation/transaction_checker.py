"""Transactions as seen from outside: in the logs, on the wire, and through the eyes of readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from klamm.coordinator.transaction.coordinator import TRANSACTIONS_TOPIC
from klamm.coordinator.transaction.records import decode_record
from klamm.coordinator.transaction.remembered import NO_TIMEOUT_MS, TransactionStored
from klamm.coordinator.transaction.states import COMPLETIONS, IDLE, NEXT_STATES, PREPARED, State
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import PartitionData
from klamm.protocol.types import TopicPartition
from klamm.records.batch import BatchHeader, iter_headers, parse_header
from klamm.records.committed import CommittedFilter
from klamm.records.record import decode_records
from klamm.storage.log import EngineLog, PartitionLog
from simulation.checkers import Checker, Place
from simulation.network import Exchange
from simulation.transaction_ledger import Source, TransactionLedger, Visible
from simulation.transaction_model import PartitionModel

if TYPE_CHECKING:
    from simulation.world import World

OFFSETS_TOPIC: Final = "__consumer_offsets"
_OUTCOMES: Final = {
    State.ONGOING: "added",
    State.PREPARE_COMMIT: "committed",
    State.PREPARE_ABORT: "aborted",
}
_READ_COMMITTED: Final = 1


class TransactionChecker(Checker):
    """The invariants of transactions; the order in which a partition's batches became safe is its log's."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ledger = TransactionLedger()
        self.read_batches = 0  # under read_committed
        self._models: dict[tuple[bytes, int], PartitionModel] = {}
        self._stored: dict[str, TransactionStored] = {}  # by transactional id, the last that is safe
        self._ids: dict[int, str] = {}  # producer id -> its transactional id, or "" for an idempotent one
        self._identities: dict[tuple[int, int], str] = {}  # and the client that got it
        self._newest: dict[int, int] = {}  # producer id -> the highest epoch that a client got
        self._fenced: dict[Exchange, int] = {}  # requests that came with an older epoch
        self._stable: dict[tuple[bytes, int], tuple[PartitionLog, int]] = {}
        self._appended: dict[str, TransactionStored] = {}  # by transactional id, the last, safe or not
        # How often the safe records have added a partition to a transaction of an identity, or ended one.
        self._decided: Counter[tuple[str, int, int, Place]] = Counter()
        self._seen: Counter[tuple[str, int, int, Place]] = Counter()  # and its own log says so
        self._undecided: dict[tuple[str, int, int, Place], None] = {}  # to be compared

    def model(self, topic_id: bytes, partition: int, topic: str) -> PartitionModel:
        key = (topic_id, partition)
        if key not in self._models:
            self._models[key] = PartitionModel(has_sequences=topic != OFFSETS_TOPIC)
        return self._models[key]

    # -- the logs

    def became_safe(self, log: EngineLog, header: BatchHeader, batch: bytes) -> None:
        if log.topic == TRANSACTIONS_TOPIC:
            for stored in stored_in(batch):
                self._follow(stored)
            return
        model = self.model(log.topic_id, log.partition, log.topic)
        were_open = set(model.open)
        for complaint in model.add(header, batch):
            self.world.broken(f"{log.topic}-{log.partition} at {header.base_offset}: {complaint}")
        is_open = header.producer_id in model.open
        if header.is_transactional and is_open != (header.producer_id in were_open):
            outcome = "added" if is_open else "committed" if model.ended[-1].is_commit else "aborted"
            fact = (outcome, header.producer_id, header.producer_epoch, (log.topic, log.partition))
            self._seen[fact] += 1
            self._undecided[fact] = None

    def _compare(self) -> None:
        """What a partition has of a transaction, the coordinator has decided: neither is safe alone.

        A decision in a log that a fault keeps from being read is compared when that log is open again.
        """
        states = [self.world.partition(place) for place in self._states()]
        if any(state is None or state.error_code is not ErrorCode.none for state in states):
            return
        self.world.logs.look_again(*self._states())
        undecided, self._undecided = self._undecided, {}
        for fact in undecided:
            if self._seen[fact] > self._decided[fact]:
                self.world.broken(f"{fact} is safe {self._seen[fact]} times, decided {self._decided[fact]}")

    def started(self) -> None:
        self._compare()

    def _follow(self, stored: TransactionStored) -> None:
        """Records of one id follow the table of states, and its producer ids are its own."""
        last = self._stored.get(stored.transactional_id)
        if last is not None and stored.state not in NEXT_STATES[last.state]:
            self.world.broken(f"{last} is followed by {stored}")
        self._stored[stored.transactional_id] = stored
        outcome = _OUTCOMES.get(stored.state)
        if outcome is not None:
            before = last.partitions if last is not None and last.state is stored.state else frozenset()
            for place in stored.partitions - before:
                self._decided[
                    outcome, stored.producer_id, stored.producer_epoch, (place.topic, place.partition)
                ] += 1
        self._own(stored.producer_id, stored.transactional_id)

    def _own(self, producer_id: int, transactional_id: str) -> None:
        owner = self._ids.setdefault(producer_id, transactional_id)
        if owner != transactional_id:
            self.world.broken(f"producer id {producer_id} is {owner!r}'s and {transactional_id!r}'s")

    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None:
        if log.topic == TRANSACTIONS_TOPIC:
            for stored in stored_in(batch):
                self._appended[stored.transactional_id] = stored
                if stored.state in COMPLETIONS.values():
                    self._check_complete(stored)
            return
        header = parse_header(batch)
        if header.is_transactional and not header.is_control:
            self._check_added(log, header)

    def _check_complete(self, stored: TransactionStored) -> None:
        """Complete* is written when every partition has its marker, and for good."""
        self.world.logs.look_again(*self._states(), *self._stored[stored.transactional_id].partitions)
        prepared = self._stored[stored.transactional_id]
        is_commit = stored.state is State.COMPLETE_COMMIT
        if prepared.state not in PREPARED or COMPLETIONS[prepared.state] is not stored.state:
            self.world.broken(f"{stored} is appended after {prepared}")
        for place in prepared.partitions:
            model = self._newest_model(place)
            if model is None:
                continue  # deleted
            marker = model.markers.get(prepared.producer_id)
            is_marked = marker is not None and marker[:2] == (prepared.producer_epoch, is_commit)
            if not is_marked or prepared.producer_id in model.open:
                self.world.broken(f"{stored} is appended, and the last marker in {place} is {marker}")

    def _states(self) -> list[Place]:
        partitions = self.world.machine.config.transaction_state_log_num_partitions
        return [(TRANSACTIONS_TOPIC, partition) for partition in range(partitions)]

    def _newest_model(self, place: Place | TopicPartition) -> PartitionModel | None:
        partition = self.world.partition(place)
        return None if partition is None else self.model(partition.topic_id, partition.partition, place[0])

    def _check_added(self, log: EngineLog, header: BatchHeader) -> None:
        """A transactional batch is for a partition that the coordinator has in the open transaction."""
        self.world.logs.look_again(*self._states())
        stored = self._appended.get(self._ids.get(header.producer_id, ""))
        place = TopicPartition(log.topic, log.partition)
        if stored is None or stored.state in IDLE or place not in stored.partitions:
            self.world.broken(f"{place}: a batch of {header} is appended, the coordinator has {stored}")

    def turned(self) -> None:
        """The last stable offset is where the rule says, and never goes back."""
        broker = self.world.machine.broker
        if broker is None:
            return
        if self._undecided:
            self._compare()
        for partition in broker.services.partitions:
            if partition.error_code is not ErrorCode.none:
                continue
            log, key = partition.log, (partition.topic_id, partition.partition)
            stable, first_open = log.last_stable_offset, self.model(*key, partition.topic).first_open_offset
            expected = log.high_watermark
            if first_open is not None:
                expected = min(expected, max(first_open, log.log_start_offset))
            if stable != expected:
                self.world.broken(f"{partition.name}: the last stable offset is {stable}, not {expected}")
            before = self._stable.get(key)
            if before is not None and before[0] is log and stable < before[1]:
                self.world.broken(
                    f"{partition.name}: the last stable offset fell from {before[1]} to {stable}"
                )
            self._stable[key] = (log, stable)

    # -- the wire

    def delivered(self, exchange: Exchange) -> None:
        request = exchange.request
        if exchange.api_key is not ApiKey.PRODUCE or request.transactional_id is None:
            return
        header = parse_header(request.topic_data[0].partition_data[0].records)
        if header.producer_epoch < self._newest.get(header.producer_id, -1):
            self._fenced[exchange] = header.producer_epoch

    def answered(self, exchange: Exchange) -> None:
        response = exchange.response
        match exchange.api_key:
            case ApiKey.INIT_PRODUCER_ID | ApiKey.END_TXN if not response.error_code:
                if response.producer_id >= 0:
                    self._identify(exchange, response.producer_id, response.producer_epoch)
            case ApiKey.PRODUCE:
                self._check_fenced(exchange)
            case ApiKey.FETCH if exchange.request.isolation_level == _READ_COMMITTED:
                for topic in response.responses:
                    for data in topic.partitions:
                        if data.records:
                            self._check_read(topic.topic, topic.topic_id, data)
            case _:
                pass

    def ended(self, exchange: Exchange) -> None:
        self._fenced.pop(exchange, None)

    def _identify(self, exchange: Exchange, producer_id: int, epoch: int) -> None:
        owner = self._identities.setdefault((producer_id, epoch), exchange.client)
        if owner != exchange.client:
            self.world.broken(f"{(producer_id, epoch)} was given to {owner} and {exchange.client}")
        self._newest[producer_id] = max(epoch, self._newest.get(producer_id, -1))
        self._own(producer_id, exchange.request.transactional_id or f"idempotent {exchange.client}")

    def _check_fenced(self, exchange: Exchange) -> None:
        """What comes with a fenced identity is refused."""
        epoch = self._fenced.pop(exchange, None)
        errors = [
            each.error_code for topic in exchange.response.responses for each in topic.partition_responses
        ]
        if epoch is not None and not all(errors):
            self.world.broken(f"{exchange.client} wrote with the fenced epoch {epoch}")

    def _check_read(self, topic: str, topic_id: bytes, data: PartitionData) -> None:
        """What a reader that follows the rules keeps is what is committed, neither more nor less."""
        model = (
            self._newest_model((topic, data.partition_index))
            if topic
            else self._models.get((topic_id, data.partition_index))
        )
        assert data.records is not None
        listed = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        committed = CommittedFilter(listed)
        for position, header in iter_headers(data.records):
            is_kept = committed.admits(data.records, position, header)
            if not header.is_transactional or header.is_control or model is None:
                continue
            outcome = model.outcomes.get(header.base_offset, is_kept)  # deleted before it was looked at
            self.read_batches += 1
            if outcome is not is_kept:
                self.world.broken(
                    f"{topic}-{data.partition_index} at {header.base_offset}: the transaction is "
                    f"{outcome}, a reader is told {is_kept} by {listed}"
                )

    # -- the end

    def at_the_end(self) -> None:
        self.world.logs.look_again(*self._states(), *(place for place, _, _ in self._served()))
        for stored in self._stored.values():
            if stored.state not in IDLE and stored.timeout_ms != NO_TIMEOUT_MS:
                self.world.broken(f"{stored} is never completed")
        found: dict[int, Visible] = {}
        inputs: dict[str, set[Source]] = {topic: set() for topic in self.ledger.consumed_topics}
        for place, log, model in self._served():
            self._check_index(log, model)
            for header, batch in self.world.logs.safe_batches(place):
                is_visible = not header.is_control and model.outcomes.get(header.base_offset, True)
                if is_visible and place[0] in inputs:
                    offsets = range(header.base_offset, header.next_offset)
                    inputs[place[0]] |= {(*place, offset) for offset in offsets}
                if header.base_offset in model.outcomes:
                    _collect(found, place, model.outcomes[header.base_offset], batch)
        for complaint in self.ledger.complaints(found, inputs):
            self.world.broken(complaint)

    def _served(self) -> Iterator[tuple[Place, EngineLog, PartitionModel]]:
        broker = self.world.machine.broker
        assert broker is not None
        for partition in broker.services.partitions:
            if not partition.topic.startswith("__"):
                model = self.model(partition.topic_id, partition.partition, partition.topic)
                yield (partition.topic, partition.partition), cast(EngineLog, partition.log), model

    def _check_index(self, log: EngineLog, model: PartitionModel) -> None:
        """Every abort is in the index, and nothing else."""
        start = log.log_start_offset
        indexed = {(each.producer_id, each.first_offset) for each in log.aborted_transactions(start, 1 << 62)}
        aborted = {each[:2] for each in model.ended if not each.is_commit and each.marker_offset >= start}
        if indexed != aborted:
            self.world.broken(f"{log.topic}-{log.partition}: {indexed} are indexed, {aborted} were aborted")


def _collect(found: dict[int, Visible], place: Place, outcome: bool | None, batch: bytes) -> None:
    for record in decode_records(batch):
        name, number, source = (record.value or b"").decode().split(" ", 2)
        visible = found.setdefault(int(name.removeprefix("t")), Visible())
        if visible.outcomes.setdefault(place, outcome) is not outcome:
            visible.outcomes[place] = None  # in two ways within one partition
        visible.numbers.setdefault(place, []).append(int(number))
        if source:
            topic, partition, offset = source.split(":")
            visible.sources.append((topic, int(partition), int(offset)))


def stored_in(batch: bytes) -> list[TransactionStored]:
    """The states of transactions in a batch of `__transaction_state`."""
    decoded = [decode_record(record.key, record.value) for record in decode_records(batch)]
    return [each for each in decoded if isinstance(each, TransactionStored)]
