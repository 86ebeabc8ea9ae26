"""The client of a registry against servers that are slow, or are no registry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from klamm.schemas import SchemaRegistry
from klamm.schemas.registry_client import MAX_ANSWER_BYTES, SchemaRegistryError


@contextmanager
def serving(size: int, part: bytes, ended: threading.Event) -> Iterator[str]:
    """A server that promises `size` bytes and sends parts of them, until the client has gone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            sent = 0
            while sent < size and not ended.wait(0.01):
                self.wfile.write(part)
                sent += len(part)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - that of http.server
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        ended.set()
        server.shutdown()
        thread.join()


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_longer_than_the_timeout() -> None:
    ended = threading.Event()
    with serving(1_000_000, b" ", ended) as url, pytest.raises(SchemaRegistryError) as failed:
        SchemaRegistry(url, timeout=0.3).schema(1)
    assert "did not answer GET" in str(failed.value)
    assert "within 0.3 s" in str(failed.value)


def test_an_answer_that_is_too_large_is_refused() -> None:
    ended = threading.Event()
    part = b" " * 1024 * 1024
    with serving(2 * MAX_ANSWER_BYTES, part, ended) as url, pytest.raises(SchemaRegistryError) as failed:
        SchemaRegistry(url).schema(1)
    assert f"exceeds {MAX_ANSWER_BYTES} bytes" in str(failed.value)
