"""The sending side of a connection: responses in order, large ones as fast as the client accepts them.

Records that are in a file go from the page cache to the socket (sendfile). Where that is not possible (no
socket of the operating system, records in memory) they are read part by part.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from klamm.broker.net.backlog import READ_AT_ONCE_BYTES, Backlog, Part, has_slice
from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from klamm.broker.net.backlog import FileRange
    from klamm.broker.net.connection import Connection
    from klamm.broker.net.outbox import Outbox
    from klamm.protocol.types import Buffer

_MAX_UNSENT_BYTES: Final = 1024 * 1024
_JOINED_BYTES: Final = 16 * 1024  # parts below this size cost more as parts than as a copy
# A full socket gets this much through its transport, which reports when the client has accepted it.
_LAST_BYTES: Final = 16 * 1024
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP})


class ResponseSender:
    """Responses of one connection that are encoded and not sent yet."""

    __slots__ = (
        "_backlog", "_descriptor", "_has_slices", "_is_lost", "_is_new", "_outbox",
        "_transport", "_unsent_bytes", "connection", "is_blocked", "is_paused", "unsent",
    )  # fmt: skip

    def __init__(self, connection: Connection, outbox: Outbox) -> None:
        self.connection = connection
        self._outbox = outbox
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1  # of the socket, if file ranges can be sent to it
        self._is_new = True  # whether `_descriptor` is not known yet
        self._is_lost = False
        self._has_slices = False  # in `unsent`
        self._unsent_bytes = 0
        self._backlog = Backlog()  # what is left of large responses
        self.unsent: list[Part] = []  # put down in this turn of the loop
        self.is_paused = False  # the transport has as much as it should
        # Whether the client has to accept something before more is decided: `is_paused`, or a backlog.
        # A plain attribute: it is read for every request.
        self.is_blocked = False

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    @property
    def can_send_more(self) -> bool:
        return self.is_blocked and not self.is_paused and not self._is_lost

    @property
    def is_direct(self) -> bool:
        """Whether large responses go to the socket without a copy in memory."""
        return self._descriptor >= 0

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def put(self, response: bytes) -> None:
        """Send this with the next `flush`."""
        self.unsent.append(response)
        self._unsent_bytes += len(response)
        if self._unsent_bytes >= _MAX_UNSENT_BYTES:
            # A burst of large responses must feel the send buffer's limit while it is being decided.
            self.flush()

    def put_parts(self, parts: Sequence[Part], size_bytes: int) -> None:
        """Send these with the next `flush`; at once if there are slices: nothing is decided before that."""
        self.unsent += parts
        self._unsent_bytes += size_bytes
        if size_bytes > READ_AT_ONCE_BYTES and has_slice(parts):
            self._has_slices = True
            self.flush()
        elif self._unsent_bytes >= _MAX_UNSENT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was put down in this turn of the loop."""
        parts, size_bytes = self.unsent, self._unsent_bytes
        self.unsent, self._unsent_bytes = [], 0
        if self._transport is None or self._is_lost or not parts:
            return
        if self._has_slices or (self.is_blocked and self._backlog):
            self._has_slices = False
            is_streaming = bool(self._backlog)
            self._backlog.add(parts)
            self.is_blocked = True
            if not is_streaming and not self.is_paused:
                self._outbox.stream(self)
            return
        whole: list[Buffer] = parts  # type: ignore[assignment] # a call of `cast` for each is not free
        if len(whole) == 1:
            self._transport.write(whole[0])
        elif size_bytes <= _JOINED_BYTES:
            self._transport.write(b"".join(whole))
        else:
            self._transport.writelines(whole)

    # Large responses

    def send_part(self, limit_bytes: int) -> int:
        """Send about so many bytes of the backlog, if the socket accepts any; how many. Raises LogError."""
        transport = self._transport
        if transport is None or self._is_lost or self.is_paused:
            return 0
        if transport.is_closing():
            self.close()  # its descriptor may be that of another file soon
            return 0
        if self._is_new:
            self._find_socket(transport)
        # What is left in the transport goes first.
        if self._descriptor >= 0 and not transport.get_write_buffer_size():
            sent_bytes = self._send_direct(transport, limit_bytes)
        else:
            sent_bytes = self._send_copy(transport, limit_bytes)
        self.is_blocked = self.is_paused or bool(self._backlog)
        return sent_bytes

    def _send_copy(self, transport: asyncio.Transport, limit_bytes: int) -> int:
        parts = self._backlog.take(limit_bytes)
        transport.writelines(parts)
        return sum(map(len, parts))

    def _find_socket(self, transport: asyncio.Transport) -> None:
        self._is_new = False
        plain = transport.get_extra_info("socket")
        if plain is None or transport.get_extra_info("sslcontext") is not None:
            return
        self._descriptor = plain.fileno()
        # `resume_writing` must mean that the transport is empty: then the socket can be used beside it.
        transport.set_write_buffer_limits(high=0)

    def _send_direct(self, transport: asyncio.Transport, limit_bytes: int) -> int:
        left_bytes = limit_bytes
        backlog = self._backlog
        is_full = False
        while backlog and left_bytes > 0 and not is_full:
            file_range = backlog.file_range(left_bytes)
            if file_range is None:
                wanted = b"".join(backlog.take(left_bytes, until_file_range=True))
                wanted_bytes = len(wanted)
                sent_bytes = self._write(wanted)
                if sent_bytes < wanted_bytes:
                    backlog.put_back(memoryview(wanted)[sent_bytes:])
            else:
                wanted_bytes = file_range.length
                sent_bytes = self._send_file(file_range)
                backlog.sent(sent_bytes)
            left_bytes -= sent_bytes
            is_full = sent_bytes < wanted_bytes
        if is_full and self._descriptor >= 0:
            left_bytes -= self._send_copy(transport, _LAST_BYTES)
        return limit_bytes - left_bytes

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0

    def _send_file(self, file_range: FileRange) -> int:
        try:
            sent_bytes = os.sendfile(self._descriptor, *file_range)
        except BlockingIOError:
            return 0
        except ConnectionError:
            raise
        except OSError as error:
            if error.errno in _NO_SENDFILE:
                self._descriptor = -1
                return 0
            raise LogError(ErrorCode.kafka_storage_error, f"reading records failed: {error}") from error
        if not sent_bytes:
            raise LogError(
                ErrorCode.kafka_storage_error, f"a segment ends before position {file_range.position}"
            )
        return sent_bytes

    # What the transport reports

    def pause(self) -> None:
        if self._is_lost:
            return
        self.is_paused = self.is_blocked = True
        self._outbox.blocked += 1

    def resume(self) -> None:
        """Go on with the backlog, if there is one."""
        self._unblock()
        if self._backlog:
            self._outbox.stream(self)

    def _unblock(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self._outbox.blocked -= 1
        self.is_blocked = bool(self._backlog)

    def close(self) -> None:
        """The client has disconnected: drop everything."""
        self._is_lost = True
        self._descriptor = -1
        self.unsent.clear()
        self._backlog.clear()
        self._unblock()
