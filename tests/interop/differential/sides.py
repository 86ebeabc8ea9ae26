"""Two brokers that are told the same, and what only one of them knows: its own ids for the same things."""

from __future__ import annotations

import hashlib
import itertools
import socket
import struct
import time
from typing import Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.message import Message
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataResponse
from klamm.protocol.types import ZERO_ID
from klamm.testing import wait_until

CLOSED: Final = "closed"
SILENT: Final = "silent"
CLIENT_ID: Final = "differential"
MARK: Final = "zz-mark"  # a topic whose configuration tells how far a broker has taken over changes
ANSWER_WITHIN_S: Final = 10.0
RESOURCES: Final = ("one", "t/wo")  # groups and client metrics that have settings
_TOPIC, BROKER, _METRICS, _GROUP = 2, 4, 16, 32
_SET_BY_CLIENTS: Final = frozenset({2, 3, 7, 8})  # sources: brokers, client metrics, groups


def stand_in(name: str, generation: int = 1) -> bytes:
    """What requests and compared answers say in place of a topic's id."""
    return hashlib.md5(f"{name}/{generation}".encode(), usedforsecurity=False).digest()


class Side:
    """One broker: connections by number, and its ids behind our stand-ins."""

    knows_producers = False  # whether producer ids are compared, or are the broker's own

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self._connections: dict[int, socket.socket] = {}
        self._correlation_ids = itertools.count(1)
        self._real_ids: dict[bytes, bytes] = {}
        self._stand_ins: dict[bytes, bytes] = {}
        self._sent_ids: set[bytes] = set()
        self._generations: dict[str, int] = {}
        self._sessions: dict[int, int] = {}  # real -> number in order of appearance
        self.own_values: set[str | None] = set()  # of settings: each broker has its own
        self._marks = itertools.count(int(time.time() * 1000))

    # Asking

    def ask(self, api_key: int, version: int, request: Any, *, connection: int = 0) -> Any:
        """The answer as this broker gives it, CLOSED or SILENT."""
        frame = self.frame(api_key, version, request)
        return self.decoded(api_key, version, self.exchange(frame, connection=connection))

    def frame(self, api_key: int, version: int, request: Any) -> bytes:
        """A request with this side's ids, as it goes over the wire."""
        body = request_encoder(api_key, version)(self._with_real_ids(request))
        return b"".join(request_frame(api_key, version, next(self._correlation_ids), CLIENT_ID, body))

    def exchange(self, frame: bytes, *, connection: int = 0) -> bytes | str:
        """Send bytes; the frame that comes back (without its size), CLOSED or SILENT."""
        try:
            opened = self._open(connection)
            opened.sendall(frame)
            size = self._exactly(opened, 4)
            return self._exactly(opened, struct.unpack(">i", size)[0])
        except TimeoutError:
            self.close(connection)
            return SILENT
        except OSError:
            self.close(connection)
            return CLOSED

    def send(self, frame: bytes, *, connection: int = 0) -> None:
        """Send bytes that nobody answers."""
        self._open(connection).sendall(frame)

    def decoded(self, api_key: int, version: int, frame: bytes | str) -> Any:
        if isinstance(frame, str):
            return frame
        _, position = read_response_header(frame, has_tags=response_has_tags(api_key, version))
        try:
            return response_decoder(api_key, version)(frame, position)
        except DecodeError as error:
            return f"undecodable: {error}"

    def _open(self, connection: int) -> socket.socket:
        if connection not in self._connections:
            self._connections[connection] = socket.create_connection(self.address, timeout=ANSWER_WITHIN_S)
        return self._connections[connection]

    @staticmethod
    def _exactly(opened: socket.socket, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = opened.recv(size - len(parts))
            if not part:
                raise ConnectionError("closed")
            parts += part
        return bytes(parts)

    def close(self, connection: int) -> None:
        opened = self._connections.pop(connection, None)
        if opened is not None:
            opened.close()

    def close_all(self) -> None:
        for connection in list(self._connections):
            self.close(connection)

    # Ids

    def learn(self) -> MetadataResponse:
        """Take over the ids of all topics; their metadata."""
        answer: MetadataResponse = self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        for topic in answer.topics:
            if topic.topic_id not in self._stand_ins:
                assert topic.name is not None
                generation = self._generations[topic.name] = self._generations.get(topic.name, 0) + 1
                name = stand_in(topic.name, generation)
                self._stand_ins[topic.topic_id], self._real_ids[name] = name, topic.topic_id
        return answer

    def member_stand_in(self, real: str) -> str:
        """A member of a group, as both sides call it."""
        return real

    def producer_stand_in(self, real: int) -> int:
        """A producer id in an answer, as both sides call it."""
        return real

    def id_stand_in(self, topic_id: bytes) -> str:
        """A topic id in an answer, as both sides call it."""
        if topic_id == ZERO_ID:
            return "none"
        if topic_id in self._stand_ins:
            return self._stand_ins[topic_id].hex()
        return topic_id.hex() if topic_id in self._sent_ids else "an id of nothing"

    def session_stand_in(self, session_id: int) -> str:
        if session_id == 0:
            return "none"
        return f"session {self._sessions.setdefault(session_id, len(self._sessions))}"

    def generation(self, name: str) -> int:
        return self._generations.get(name, 0)

    def _with_real_ids(self, value: Any) -> Any:
        """A copy of a request with stand-ins replaced."""
        if isinstance(value, Message):
            changed = {name: self._real_field(name, item) for name, item in value.values().items()}
            return type(value)(**changed)
        if isinstance(value, list | tuple):
            return [self._with_real_ids(item) for item in value]
        return value

    def _real_field(self, name: str, value: Any) -> Any:
        if name == "topic_id":
            self._sent_ids.add(value)
            return self._real_ids.get(value, value)
        if name == "session_id" and value < 0:
            # -n is the n-th session that was ever made.
            reals = list(self._sessions)
            return reals[-value - 1] if -value <= len(reals) else 123_456_789
        return self._with_real_ids(value)

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    # Waiting

    def settle(self) -> None:
        """Wait until the broker has taken over every change that it has answered."""
        wanted = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, MARK, ["retention.ms"])])
        for _ in range(2):
            mark = str(next(self._marks))
            change = AlterConfigsResource(_TOPIC, MARK, [AlterableConfig("retention.ms", 0, mark)])
            self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([change]))
            wait_until(lambda: self._told(wanted), "20s", equals=mark, every="2ms")

    def _told(self, wanted: DescribeConfigsRequest) -> str | None:
        answer = self.ask(ApiKey.DESCRIBE_CONFIGS, 4, wanted)
        configs = answer.results[0].configs
        value: str | None = configs[0].value if configs else None
        return value

    def clear(self) -> None:
        """No topics but the mark, no settings made while running, no connections."""
        self.close_all()
        names = [topic.name for topic in self.learn().topics if topic.name and topic.name != MARK]
        doomed = [name for name in names if not name.startswith("__")]
        if doomed:
            self.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=doomed, timeout_ms=30_000))
        self.ask(
            ApiKey.CREATE_TOPICS,
            5,
            CreateTopicsRequest([CreatableTopic(name=MARK, num_partitions=1, replication_factor=1)]),
        )
        wait_until(lambda: MARK in {topic.name for topic in self.learn().topics}, "20s", every="2ms")
        for kind, name in (
            (BROKER, ""),
            (BROKER, "1"),
            *((kind, name) for kind in (_METRICS, _GROUP) for name in RESOURCES),
        ):
            self._forget_settings(kind, name)
        # Formatting a Kafka makes this setting, and it does not let go of it again.
        resource = AlterConfigsResource(BROKER, "", [AlterableConfig("min.insync.replicas", 0, "1")])
        self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))
        self.settle()
        wait_until(
            lambda: self.ask(ApiKey.INIT_PRODUCER_ID, 0, InitProducerIdRequest()).error_code,
            "20s",
            equals=0,
            every="2ms",
        )
        self._generations.clear()
        self._stand_ins.clear()
        self._real_ids.clear()
        self._sessions.clear()
        self.learn()

    def _forget_settings(self, kind: int, resource_name: str) -> None:
        answer = self.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            DescribeConfigsRequest([DescribeConfigsResource(kind, resource_name, None)]),
        )
        self.own_values |= {entry.value for entry in answer.results[0].configs if entry.name == "log.dirs"}
        dynamic = [
            entry.name for entry in answer.results[0].configs if entry.config_source in _SET_BY_CLIENTS
        ]
        changes = [AlterableConfig(name, 1, None) for name in dynamic if name != "min.insync.replicas"]
        if changes:
            resource = AlterConfigsResource(kind, resource_name, changes)
            self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))
