"""The smallest coordinator there can be, for tests of its host: numbers that are added and published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from klamm.broker.net.context import ClientSoftware, RequestContext
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.shard import ACTIVE, Shard
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.runtime.shards import Shards
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Request
from klamm.records.batch import iter_headers
from klamm.records.record import Record, decode_records, encode_batch

ANYONE = RequestContext("client", "/10.0.0.1", "PLAINTEXT", ClientSoftware())


@dataclass
class Sum:
    error_code: int = 0
    total: int = 0


@dataclass
class Add(Request[Sum]):
    number: int
    publish: bool = False
    in_ms: int | None = None


class Publish(NamedTuple):
    """An action."""

    total: int


class Published(NamedTuple):
    """The signal that it is done."""

    total: int


@dataclass
class Added:
    """An event."""

    number: int
    timestamp_ms: int
    key: str = "ledger"
    is_warning: bool = False

    def as_json(self) -> dict[str, object]:
        return {"type": "added", "number": self.number}

    def line(self) -> str:
        return f"Added {self.number}"


class LedgerMachine:
    """Remembers a sum. State changes in `replay` alone, apart from what a restart forgets."""

    def __init__(self) -> None:
        self.total = 0
        self.published: list[int] = []
        self.durable_offset = 0

    def decide(self, request: object, context: Context) -> Outcome:
        match request:
            case Published(total):
                return Outcome(notes=(total,))
            case Add(number, publish, None):
                total = self.total + number
                return Outcome(
                    records=(number,),
                    replies=((context.token, Sum(total=total)),) if context.token is not None else (),
                    actions=(Publish(total),) if publish else (),
                    events=(Added(number, context.timestamp_ms),),
                )
            case Add(number, publish, int(in_ms)):
                return Outcome(
                    timers=((Timer(Add(number, publish)), context.now_ms + in_ms),),
                    replies=((context.token, Sum(total=self.total)),),
                )
        raise AssertionError(request)

    def encode(self, records: Sequence[int], timestamp_ms: int) -> bytes:
        return encode_batch(
            [Record(place, timestamp_ms, None, str(each).encode()) for place, each in enumerate(records)]
        )

    def replay(self, records: Sequence[int], offset: int) -> int:
        self.total += sum(records)
        return offset + len(records)

    def durable(self, offset: int) -> None:
        self.durable_offset = offset

    def apply(self, note: int) -> None:
        self.published.append(note)

    def load(self, batches: bytes) -> int:
        next_offset = -1
        for position, header in iter_headers(batches):
            self.replay([int(record.value or b"") for record in decode_records(batches, position)], 0)
            next_offset = header.next_offset
        if next_offset < 0:
            raise CorruptLogError("no whole batch")
        return next_offset

    def loaded(self, context: Context) -> Outcome:
        return Outcome()

    def unloaded(self, error_code: ErrorCode) -> Outcome:
        return Outcome()

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        return Sum(error_code=error_code)

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        return Sum(error_code=error_code)


class Ledger:
    """One shard: everything lives in partition 0."""

    def __init__(self, topic: str, host: ShardHost) -> None:
        self._host = host
        self.shards: Shards[int, int] = Shards(topic, make_machine=LedgerMachine, host=host)
        self.handlers: dict[type, Callable[[Any, Context], None]] = {Add: self._handle}

    def partition_for(self, key: str) -> int:
        return 0

    def _handle(self, request: Any, context: Context) -> None:
        shard = self.shards.by_partition.get(0)
        if shard is not None and shard.status is ACTIVE:
            shard.handle(request, context)
        else:
            self._host.send(context.token, Sum(error_code=self.shards.why_not(0)))

    @property
    def shard(self) -> Shard:
        return self.shards.by_partition[0]

    @property
    def machine(self) -> LedgerMachine:
        machine = self.shard.machine
        assert isinstance(machine, LedgerMachine)
        return machine
