"""Checks of a connection and of a cluster: each says what it found, and what to do where that is wrong."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import LogDirDescription
from klamm.errors import (
    ClusterAuthorizationFailedError,
    KlammError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from klamm.groups.diagnosis.words import count, duration, listed
from klamm.net.network import Address
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.api_versions import ApiVersionsRequest

PLAINTEXT: Final = ("PLAINTEXT", "SASL_PLAINTEXT")
_PROBE_S: Final = 3.0
_LEAST_FREE: Final = 0.1  # of a disk
_MAX_ANSWER_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was looked at."""

    is_ok: bool
    found: str
    next_step: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.is_ok, "found": self.found, "next_step": self.next_step or None}


def connection_checks(address: Address, protocol: str, timeout: float) -> Iterator[Probe]:
    """Name, port and protocol of one address; nothing is looked at after what fails."""
    host, port = address
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        yield Probe(
            False,
            f"{host}: the name cannot be resolved: {error.strerror or error}",
            "check the spelling, and the DNS of this machine",
        )
        return
    ips = list(dict.fromkeys(str(info[4][0]) for info in infos))
    yield Probe(True, f"{host} is {listed(ips)}")
    reached: list[str] = []
    for ip in ips:
        began = monotonic()
        try:
            socket.create_connection((ip, port), timeout).close()
        except OSError as error:
            advice = _PORT_ADVICE.get(type(error), "check the network between this machine and the broker")
            yield Probe(False, f"{ip}:{port} cannot be reached: {error.strerror or error}", advice)
        else:
            reached.append(ip)
            yield Probe(True, f"{ip}:{port} accepts connections ({duration((monotonic() - began) * 1000)})")
    if reached:
        yield _protocol_check((reached[0], port), protocol, min(timeout, _PROBE_S))


_PORT_ADVICE: Final = {
    ConnectionRefusedError: "no process listens there: is the broker running, and is this its port?",
    TimeoutError: "nothing answers: a firewall or a security group may drop the packets",
}


def _protocol_check(address: Address, protocol: str, timeout: float) -> Probe:
    """What speaks at an address, and whether the client is set up for that."""
    wants_tls = protocol not in PLAINTEXT
    has_tls = _speaks_tls(address, timeout)
    if has_tls:
        if wants_tls:
            return Probe(True, "it speaks TLS")
        return Probe(
            False,
            f"it speaks TLS, and security.protocol is {protocol}",
            "set security.protocol to SSL, or to SASL_SSL if it asks for a login",
        )
    what = _what_answers(address, timeout)
    if what is None:
        return Probe(
            False,
            "it accepts connections and answers nothing",
            "it may hang, or be no Kafka broker: look at the process behind the port",
        )
    if not what.startswith("it speaks Kafka's protocol"):
        return Probe(False, what, "this is not a listener for Kafka clients: check the port")
    if wants_tls:
        return Probe(
            False,
            f"{what} without TLS, and security.protocol is {protocol}",
            "set security.protocol to PLAINTEXT, or to SASL_PLAINTEXT if it asks for a login",
        )
    return Probe(True, what)


def _speaks_tls(address: Address, timeout: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only whether it is TLS: the client itself checks the certificate afterwards.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, timeout) as plain,
            context.wrap_socket(plain, server_hostname=address[0]),
        ):
            return True
    except ssl.SSLError as error:
        # It asks for a client certificate, or has no version in common: TLS all the same.
        return "ALERT" in (error.reason or "") or "UNSUPPORTED_PROTOCOL" in (error.reason or "")
    except OSError:
        return False


def _what_answers(address: Address, timeout: float) -> str | None:
    """What answers to a request of Kafka's; None if nothing comes."""
    body = request_encoder(ApiKey.API_VERSIONS, 0)(ApiVersionsRequest())
    frame = b"".join(request_frame(ApiKey.API_VERSIONS, 0, 7, "klamm-doctor", body))
    data = b""
    try:
        with socket.create_connection(address, timeout) as plain:
            plain.sendall(frame)
            while len(data) < 4 or len(data) < 4 + min(int.from_bytes(data[:4], "big"), _MAX_ANSWER_BYTES):
                more = plain.recv(_MAX_ANSWER_BYTES)
                if not more:
                    break
                data += more
    except OSError:
        if not data:
            return None
    if data.startswith(b"HTTP/"):
        return "it speaks HTTP"
    if data.startswith(b"SSH-"):
        return "it speaks SSH"
    try:
        if data[4:8] != (7).to_bytes(4, "big"):
            raise DecodeError("not the correlation id of the request")
        response = response_decoder(ApiKey.API_VERSIONS, 0)(data, 8)
    except (DecodeError, IndexError):
        return (
            f"it does not speak Kafka's protocol (it answers with {len(data)} other bytes)" if data else None
        )
    newest = {item.api_key: item.max_version for item in response.api_keys}
    return (
        f"it speaks Kafka's protocol: {len(newest)} APIs, "
        f"Produce up to version {newest.get(ApiKey.PRODUCE)}, Fetch up to {newest.get(ApiKey.FETCH)}"
    )


def exchanged(
    address: Address,
    context: ssl.SSLContext | None,
    timeout: float,
    api_key: ApiKey,
    version: int,
    request: Any,
) -> Any:
    """The answer to one request on a connection of its own; None if none comes. Raises ssl.SSLError."""
    body = request_encoder(api_key, version)(request)
    data = b""
    try:
        with socket.create_connection(address, timeout) as plain:
            wire = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
            with wire:
                wire.sendall(b"".join(request_frame(api_key, version, 7, "klamm-doctor", body)))
                while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                    more = wire.recv(_MAX_ANSWER_BYTES)
                    if not more or len(data) > _MAX_ANSWER_BYTES:
                        return None
                    data += more
        return response_decoder(api_key, version)(data, 8)
    except ssl.SSLError:
        raise
    except (OSError, DecodeError):
        return None


def cluster_checks(admin: Admin, protocol: str, timeout: float) -> Iterator[Probe]:
    """Login, certificate and metadata; then the addresses that the brokers give to clients."""
    try:
        found = admin.describe_cluster()
    except KlammError as error:
        yield Probe(False, f"a client cannot connect: {error}", "")
        return
    yield Probe(
        True, f"a client can connect: cluster {found.cluster_id}, {count(len(found.brokers), 'broker')}"
    )
    for broker in found.brokers:
        for check in connection_checks((broker.host, broker.port), protocol, timeout):
            if not check.is_ok:
                yield Probe(
                    False,
                    f"broker {broker.broker_id} tells clients to connect to {broker.host}:{broker.port}: "
                    f"{check.found}",
                    "set advertised.listeners of that broker to an address that this machine can reach",
                )
                break
        else:
            yield Probe(True, f"broker {broker.broker_id} can be reached at {broker.host}:{broker.port}")


def health_checks(admin: Admin) -> Iterator[Probe]:
    """The controller, the brokers, the leaders of partitions, the disks. Raises KlammError."""
    try:
        found = admin.describe_cluster(include_fenced_brokers=True)
    except UnsupportedVersionError:
        found = admin.describe_cluster()
    if found.controller_id < 0:
        yield Probe(False, "the cluster has no controller", "topics cannot be changed: see the brokers' logs")
    else:
        yield Probe(True, f"controller {found.controller_id}")
    fenced = [broker.broker_id for broker in found.brokers if broker.is_fenced]
    if fenced:
        yield Probe(
            False,
            f"fenced brokers, which lead nothing: {listed(fenced)}",
            "start them, or see why they cannot reach the others",
        )
    yield Probe(True, f"{count(len(found.brokers) - len(fenced), 'active broker')}")
    topics = admin.describe_topics(admin.list_topics(internal=True), raise_errors=False)
    leaderless = [
        f"{name}-{each.partition}"
        for name, topic in topics.successes.items()
        for each in topic.partitions
        if each.leader_id < 0
    ]
    total = sum(len(topic.partitions) for topic in topics.successes.values())
    if leaderless:
        yield Probe(
            False,
            f"partitions without a leader: {listed(leaderless)}",
            "their brokers do not run, or their logs are offline: `klamm cluster describe`, and the logs",
        )
    else:
        yield Probe(True, f"all {count(total, 'partition')} that this user may describe have a leader")
    # A topic that is gone since it was listed is no problem.
    unknown = [
        error for error in topics.errors.values() if not isinstance(error, UnknownTopicOrPartitionError)
    ]
    if unknown:
        yield Probe(False, f"topics that are not known: {listed(unknown)}", "see the logs of their brokers")
    try:
        directories = admin.describe_log_dirs()
    except ClusterAuthorizationFailedError as error:
        yield Probe(
            False,
            f"how full the disks are is not known: {error}",
            "ask as a user who may describe the cluster",
        )
    else:
        yield from map(_of_disk, directories)


def failing_disks(admin: Admin) -> list[Probe]:
    """The log directories that take no records, of all brokers."""
    found = admin.describe_log_dirs([])
    return [_of_disk(item) for item in found if item.error is not None or _is_full(item)]


def _is_full(item: LogDirDescription) -> bool:
    return item.total_bytes > 0 and item.usable_bytes == 0


def _of_disk(item: LogDirDescription) -> Probe:
    where = f"broker {item.broker_id}, {item.path}"
    if item.error is not None:
        return Probe(False, f"{where}: {item.error}", "see the disk and the broker's log")
    if _is_full(item):
        return Probe(
            False,
            f"{where}: the disk is full, and writes are refused",
            "delete records (`klamm topics trim`) or topics (`klamm topics delete`), or make room on "
            "the disk in another way",
        )
    if item.total_bytes <= 0 or item.usable_bytes < 0:
        return Probe(True, f"{where}: the broker does not tell how full the disk is")
    free = item.usable_bytes / item.total_bytes
    is_ok = free >= _LEAST_FREE
    return Probe(
        is_ok,
        f"{where}: {free:.0%} of the disk is free",
        "" if is_ok else "`klamm topics trim`, a shorter retention, or a larger disk",
    )
