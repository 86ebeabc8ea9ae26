"""One request over a blocking connection of its own, for a program that ends with the answer.

No thread, no metadata, no second attempt: a client does all that, but takes longer to import than a broker to
answer.
"""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from klamm.errors import DisconnectedError, KlammTimeoutError
from klamm.net.wire import Call, Wire
from klamm.protocol.api import ApiKey

CHUNK_BYTES: Final = 256 * 1024
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024


def ask_once(address: tuple[str, int], client_id: str, api_key: ApiKey, request: Any, timeout: float) -> Any:
    """The response to a request, over IPv4. Raises OSError or KlammError."""
    due_at = time.monotonic() + timeout
    answers: list[tuple[Any, Exception | None]] = []
    call = Call(
        api_key, request, lambda response, error: answers.append((response, error)), round(timeout * 1000)
    )
    wire = Wire(client_id, MAX_RESPONSE_BYTES)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"".join(wire.open(call.timeout_ms, 0)))
        is_sent = False
        while not answers:
            left = due_at - time.monotonic()
            if left <= 0:
                raise KlammTimeoutError(f"{api_key.name} timed out after {call.timeout_ms} ms")
            connection.settimeout(left)
            data = connection.recv(CHUNK_BYTES)
            if not data:
                raise DisconnectedError(f"{address[0]}:{address[1]}: the broker closed the connection")
            answered, to_send = wire.receive(data, 0)
            for done, response in answered:
                done.finish(response, None)
            if wire.is_ready and not is_sent:
                is_sent = True
                to_send += wire.send(call, 0)
            if to_send:
                connection.sendall(b"".join(to_send))
    return answers[0][0]
