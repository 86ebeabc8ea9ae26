"""Checks of what secures a connection: certificates, the mechanism of the login, rights."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from klamm.access.acls import OPERATIONS, AclOperation, ResourceType
from klamm.client.admin.admin import Admin
from klamm.client.calls import Calls
from klamm.client.diagnosis.checks import Probe, exchanged
from klamm.errors import BrokerError, KlammError
from klamm.groups.diagnosis.words import listed
from klamm.net.network import Address
from klamm.net.security.tls import explain
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest

SOON_DAYS: Final = 30  # a certificate that ends within is named
_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
}


def certificate_checks(address: Address, context: ssl.SSLContext, timeout: float) -> Iterator[Probe]:
    """The chain that a broker shows, and whether this client accepts it."""
    for number, each in enumerate(_shown_chain(address, timeout), start=1):
        yield _of_certificate(number, each)
    try:
        with (
            socket.create_connection(address, timeout) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secured,
        ):
            version = secured.version()
    except ssl.SSLError as error:
        yield Probe(False, explain(error), "see the certificates above")
    except OSError as error:
        yield Probe(False, f"the TLS handshake failed: {error.strerror or error}", "see the broker's log")
    else:
        yield Probe(True, f"this client accepts the certificate for {address[0]} ({version})")


def _shown_chain(address: Address, timeout: float) -> Sequence[dict[str, Any]]:
    """The certificates that the broker shows, its own first; nothing if it does not get so far."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # they are looked at, not trusted
    try:
        with (
            socket.create_connection(address, timeout) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secured,
        ):
            # Public from Python 3.13 on, as get_unverified_chain of the socket, and in another form.
            chain = secured._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
            return [each.get_info() for each in chain or ()]
    except (OSError, AttributeError):
        return []


def _of_certificate(number: int, certificate: dict[str, Any]) -> Probe:
    subject, issuer = _name(certificate["subject"]), _name(certificate["issuer"])
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    left_days = (ends - datetime.now(UTC)).days
    names = [value for _, value in certificate.get("subjectAltName", ())]
    by = "of itself" if subject == issuer else f"of {issuer}"
    text = f"certificate {number}: {subject}, {by}" + (f", for {listed(names)}" if names else "")
    if left_days < 0:
        return Probe(False, f"{text}: it has expired on {ends:%Y-%m-%d}", "renew it on the broker")
    text += f", valid until {ends:%Y-%m-%d}"
    if left_days < SOON_DAYS:
        return Probe(True, f"{text}: in {left_days} days", "renew it on the broker")
    return Probe(True, text)


def _name(parts: Sequence[Sequence[tuple[str, str]]]) -> str:
    named = [(_SHORT.get(key, key), value) for part in parts for key, value in part]
    return ", ".join(f"{key}={value}" for key, value in reversed(named)) or "(no name)"


def mechanism_check(
    address: Address, context: ssl.SSLContext | None, mechanism: str, timeout: float
) -> Probe:
    """Whether a broker offers the mechanism of the login, and what it offers otherwise."""
    request = SaslHandshakeRequest(mechanism=mechanism)
    try:
        response = exchanged(address, context, timeout, ApiKey.SASL_HANDSHAKE, 1, request)
    except ssl.SSLError as error:
        return Probe(False, f"the login is not reached: {explain(error)}", "see the checks before")
    if response is None:
        return Probe(
            False,
            "it does not answer to SaslHandshake",
            "it may have no SASL: set security.protocol to SSL or PLAINTEXT, or use another port",
        )
    if response.error_code == ErrorCode.none:
        return Probe(True, f"it offers {mechanism} (all: {listed(sorted(response.mechanisms))})")
    if response.error_code == ErrorCode.unsupported_sasl_mechanism:
        offered = sorted(response.mechanisms)
        return Probe(
            False,
            f"it does not offer sasl.mechanism={mechanism}, but {listed(offered)}",
            f"set sasl.mechanism to {offered[0]}, with its user and password" if offered else "",
        )
    return Probe(
        False,
        "the listener has no SASL",
        "set security.protocol to SSL or PLAINTEXT, or use the port of a SASL listener",
    )


def rights_checks(admin: Admin, user: str, topics: Sequence[str], groups: Sequence[str]) -> Iterator[Probe]:
    """What the user may do with topics and groups, as the brokers tell."""
    for topic in topics:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        try:
            answer = _asked(admin, lambda calls, request=request: _to_any(calls, request))
        except KlammError as error:
            yield Probe(False, f"topic {topic}: {error}")
            continue
        found = answer.topics[0]
        how = "read,write"
        yield _rights(
            user, ResourceType.TOPIC, topic, found.error_code, found.topic_authorized_operations, how
        )
    for group in groups:
        about = DescribeGroupsRequest([group], include_authorized_operations=True)
        try:
            answer = _asked(admin, lambda calls, group=group, about=about: _to_group(calls, group, about))
        except BrokerError as error:
            yield _rights(user, ResourceType.GROUP, group, error.error_code, 0, "read")
            continue
        except KlammError as error:
            yield Probe(False, f"group {group}: {error}")
            continue
        described = answer.groups[0]
        yield _rights(
            user,
            ResourceType.GROUP,
            group,
            described.error_code,
            described.authorized_operations,
            "read",
        )


async def _to_any(calls: Calls, request: MetadataRequest) -> Any:
    return await calls.to_any(ApiKey.METADATA, request, calls.deadline("asking for rights", None))


async def _to_group(calls: Calls, group: str, request: DescribeGroupsRequest) -> Any:
    deadline = calls.deadline("asking for rights", None)
    coordinator = await calls.coordinator_of(group, deadline)
    return await calls.to_broker(coordinator, ApiKey.DESCRIBE_GROUPS, request, deadline)


def _asked(admin: Admin, make: Any) -> Any:
    return admin._operations._run(make).result()


def _rights(user: str, kind: ResourceType, name: str, error_code: int, bits: int, how: str) -> Probe:
    word = kind.name.lower()
    add = f"`klamm acls add {user} --can {how} --{word} {name}`, or ask who has the right to"
    if error_code in (ErrorCode.topic_authorization_failed, ErrorCode.group_authorization_failed):
        absent = ", or there is no such topic" if kind is ResourceType.TOPIC else ""
        return Probe(False, f"{user} may not describe {word} {name}{absent}", add)
    if error_code not in (ErrorCode.none, ErrorCode.group_id_not_found):
        problem = ErrorCode(error_code).name.upper()
        return Probe(False, f"{word} {name}: {problem}", "check the name")
    if bits < 0:
        missing = ", which does not exist" if error_code else ""
        return Probe(
            True, f"{user} may describe {word} {name}{missing}; the broker does not tell other rights"
        )
    allowed = [AclOperation(each) for each in OPERATIONS[kind] if bits >> each & 1]
    words = listed([each.name.lower() for each in allowed]) if allowed else "describe"
    may_use = bool({AclOperation.READ, AclOperation.WRITE} & set(allowed))
    only = "" if may_use else "only "
    return Probe(may_use, f"{user} may {only}{words} {word} {name}", "" if may_use else add)
