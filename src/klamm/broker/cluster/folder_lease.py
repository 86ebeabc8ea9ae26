"""Leases of brokers on one machine that share a data folder: a file lock for each broker id.

The kernel frees a lock when its process dies, however it dies. A write to a segment file cannot check an
epoch, so the lock is the fence: partitions are taken over only while the taker holds their leader's lock.
A process that has the lock and does not renew is stuck: it is ended (`klamm.fence=kill`), or waited for.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.lease import LeaseHolder
from klamm.storage.cluster import BrokerRegistration, ClusterStoreError, FencedError

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

FOLDER: Final = "brokers"
_RENEWAL: Final = Struct("<q")  # of the boot clock, in milliseconds; the rest of the file is JSON
_MAX_BYTES: Final = 4096
_OBSERVED_MS: Final = 2000  # a process is silent only if it was so in front of our eyes, too
_REMIND_MS: Final = 60_000
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "gfs2", "ocfs2", "ncpfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse"}
)

_log = logging.getLogger(__name__)


def boot_clock_ms() -> int:
    """A clock that all processes of the machine share, and that counts while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one with the same pid."""

    pid: int
    started_at: str  # in ticks since the machine started
    boot_id: str
    namespace: str  # of its pid

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """None if there is no such process, or this system has no /proc."""
        try:
            stat = _text_of(f"/proc/{pid}/stat")
            return cls(
                pid,
                stat.rpartition(")")[2].split()[19],
                _text_of("/proc/sys/kernel/random/boot_id").strip(),
                os.readlink("/proc/self/ns/pid"),
            )
        except (OSError, IndexError):
            return None

    def kill(self) -> bool:
        """End it at once, if it still is this process; whether a signal was sent. Raises PermissionError."""
        if self.pid == os.getpid() or not hasattr(os, "pidfd_open"):
            return False
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The descriptor refers to one process for good: what is right now stays right.
            if Process.of(self.pid) != self:
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


class FolderLease:
    """The lease of one broker id in a data folder."""

    # The lock is taken from no process that may still run: a silent one is killed first, or waited for.
    ends_by_silence = False

    def __init__(
        self,
        folder: str | Path,
        broker_id: int,
        *,
        session_timeout_ms: int,
        fence: str = "kill",
        now_ms: Callable[[], int] = boot_clock_ms,
    ) -> None:
        """Raises OSError if the folder cannot be used."""
        self._folder = os.path.join(folder, FOLDER)
        self._broker_id = broker_id
        self._session_timeout_ms = session_timeout_ms
        self._kills = fence == "kill"
        self._now_ms = now_ms
        self._descriptor = -1
        self._observed: dict[int, tuple[int, int]] = {}  # by broker: last renewal, and when it was first seen
        self._reminded_at_ms: dict[int, int] = {}
        os.makedirs(self._folder, exist_ok=True)

    def now_ms(self) -> int:
        return self._now_ms()

    def _path(self, broker_id: int) -> str:
        return f"{self._folder}/{broker_id}.lock"

    # --- this broker -----------------------------------------------------------------------------------

    def try_acquire(self) -> LeaseHolder | None:
        if self._descriptor >= 0 and self._is_ours():
            return None
        self.release()
        descriptor = self._locked(self._broker_id)
        if descriptor is None:
            renewal, process = self._content(self._broker_id)
            self._judge(self._broker_id)
            if process is None:
                return LeaseHolder(renewal, "another process")
            return LeaseHolder(renewal, f"process {process.pid}", is_alive=process.pid == os.getpid())
        self._descriptor = descriptor
        self._write_renewal()
        self._identify(-1)
        return None

    def registered(self, me: BrokerRegistration) -> None:
        self._identify(me.epoch)
        self.renew()

    def _identify(self, broker_epoch: int) -> None:
        """Write down which process has the lock."""
        process = Process.of(os.getpid())
        content = {
            "pid": os.getpid(),
            "started_at": process.started_at if process else "",
            "boot_id": process.boot_id if process else "",
            "namespace": process.namespace if process else "",
            "broker_epoch": broker_epoch,
        }
        data = json.dumps(content).encode()
        try:
            os.pwrite(self._descriptor, data, _RENEWAL.size)
            os.ftruncate(self._descriptor, _RENEWAL.size + len(data))
        except OSError as error:
            raise ClusterStoreError(f"writing {self._path(self._broker_id)} failed: {error}") from error

    def renew(self) -> None:
        if not self._is_ours():
            raise FencedError(f"{self._path(self._broker_id)} was removed or replaced")
        self._write_renewal()

    def _is_ours(self) -> bool:
        """Whether the file that is locked still is the one that others would lock."""
        path = self._path(self._broker_id)
        try:
            return os.stat(path).st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ClusterStoreError(f"{path}: {error}") from error

    def _write_renewal(self) -> None:
        try:
            os.pwrite(self._descriptor, _RENEWAL.pack(self._now_ms()), 0)
        except OSError as error:
            raise ClusterStoreError(f"writing {self._path(self._broker_id)} failed: {error}") from error

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # --- other brokers ---------------------------------------------------------------------------------

    def is_dead(self, broker: BrokerRegistration, *, judges_silence: bool) -> bool:
        descriptor = self._locked(broker.broker_id)
        if descriptor is not None:
            os.close(descriptor)
            return True
        if judges_silence:
            self._judge(broker.broker_id)
        return False

    @contextmanager
    def hold(self, broker: BrokerRegistration) -> Iterator[bool]:
        descriptor = self._locked(broker.broker_id)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _judge(self, broker_id: int) -> None:
        """End a process that holds the lock and does not renew. Its death is seen by the next look."""
        now_ms = self._now_ms()
        renewal, process = self._content(broker_id)
        known, seen_at_ms = self._observed.get(broker_id, (-1, now_ms))
        if known != renewal:
            seen_at_ms = now_ms
        self._observed[broker_id] = renewal, seen_at_ms
        silent_ms = now_ms - renewal
        if silent_ms <= self._session_timeout_ms or now_ms - seen_at_ms < _OBSERVED_MS:
            return
        try:
            if self._kills and process is not None and process.kill():
                _log.error(
                    "broker %d (process %d) has not renewed its lease for %d ms: killed",
                    broker_id,
                    process.pid,
                    silent_ms,
                )
                return
            cause = "klamm.fence=wait" if not self._kills else "the process cannot be identified"
        except PermissionError:
            cause = "no permission to end the process"
        if now_ms - self._reminded_at_ms.get(broker_id, -_REMIND_MS) >= _REMIND_MS:
            self._reminded_at_ms[broker_id] = now_ms
            _log.warning(
                "broker %d (process %s) has not renewed its lease for %d ms; its partitions stay with it: %s",
                broker_id,
                process.pid if process is not None else "unknown",
                silent_ms,
                cause,
            )

    # --- lock files ------------------------------------------------------------------------------------

    def _locked(self, broker_id: int) -> int | None:
        """Lock the file of a broker; None if a process has it. No child process inherits the descriptor."""
        path = self._path(broker_id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ClusterStoreError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass  # held, or removed at this moment: in both cases not ours
        except OSError as error:
            os.close(descriptor)
            raise ClusterStoreError(f"cannot lock {path}: {error.strerror}") from error
        os.close(descriptor)
        return None

    def _content(self, broker_id: int) -> tuple[int, Process | None]:
        """The last renewal, and the process that holds the lock, if it can be identified."""
        try:
            with open(self._path(broker_id), "rb") as file:
                data = file.read(_MAX_BYTES)
            (renewal,) = _RENEWAL.unpack_from(data)
        except (OSError, StructError):  # absent, or still empty
            return -1, None
        try:
            fields = json.loads(data[_RENEWAL.size :])
            process = Process(
                int(fields["pid"]),
                str(fields["started_at"]),
                str(fields["boot_id"]),
                str(fields["namespace"]),
            )
        except (ValueError, KeyError, TypeError):
            return renewal, None
        return renewal, process if process.started_at else None


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def network_file_system(folder: str | Path) -> str | None:
    """The type of a network file system under a folder: its locks do not exclude other machines reliably."""
    try:
        mounts = _text_of("/proc/self/mountinfo")
    except OSError:
        return None
    return network_type(os.path.realpath(folder), mounts)


def network_type(path: str, mounts: str) -> str | None:
    """As `network_file_system`, of a text in the format of /proc/self/mountinfo."""
    longest, found = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ")
        is_inside = path == point or path.startswith(point.rstrip("/") + "/")
        if is_inside and len(point) >= longest:
            longest, found = len(point), after.split()[0]
    return found if found in _NETWORK_FILE_SYSTEMS else None
