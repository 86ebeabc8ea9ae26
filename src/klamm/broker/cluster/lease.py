"""The lease port: how a broker proves that it is alive, and how the others learn that it is not.

A store of the cluster has leases of its kind: the folder's are file locks (`folder_lease`), a database's are
rows. Methods may block: they are called through `run_blocking`, except `now_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from klamm.storage.cluster import BrokerRegistration, FencedError


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The process that has the lease of a broker id."""

    renewal: int  # differs after each renewal; equal: it has not renewed meanwhile
    description: str  # of the process, for an error message
    is_alive: bool = False  # known without waiting for its next renewal


class Lease(Protocol):
    """The lease of one broker id."""

    # Whether others take over from a process that is silent and may still run. It must not answer then.
    ends_by_silence: bool

    def now_ms(self) -> int:
        """The clock by which this broker's lease is measured. It also counts while the machine sleeps."""
        ...

    def try_acquire(self) -> LeaseHolder | None:
        """Acquire the lease before registering; the holder if another process has it."""
        ...

    def registered(self, me: BrokerRegistration) -> None:
        """The broker has registered with this epoch: the lease is valid for it, and is renewed now."""
        ...

    def renew(self) -> None:
        """Prove that this broker is alive. Raises FencedError, or ClusterStoreError if it is not known."""
        ...

    def is_dead(self, broker: BrokerRegistration, *, judges_silence: bool) -> bool:
        """Whether the lease of another broker has ended.

        Without `judges_silence` a broker that did not renew is not dead: this broker may have been suspended
        itself, and the others not had the time to renew.
        """
        ...

    def hold(self, broker: BrokerRegistration) -> AbstractContextManager[bool]:
        """Keep an ended lease from being acquired, during a take-over; False if it has not ended.

        A store that checks the lease in the transaction of the take-over has nothing to hold.
        """
        ...

    def release(self) -> None:
        """Give the lease up: the broker has stopped and closed its logs."""
        ...


class MemoryLeases:
    """The leases of brokers in one process; `of` makes the lease of one broker. Ended by silence only."""

    def __init__(self, now_ms: Callable[[], int], session_timeout_ms: int) -> None:
        self.now_ms = now_ms
        self.session_timeout_ms = session_timeout_ms
        self.renewed_at_ms: dict[int, int] = {}  # by broker id
        self.owners: dict[int, MemoryLease] = {}

    def of(self, broker_id: int) -> MemoryLease:
        return MemoryLease(self, broker_id)

    def is_over(self, broker_id: int) -> bool:
        renewed_at_ms = self.renewed_at_ms.get(broker_id)
        return renewed_at_ms is None or self.now_ms() - renewed_at_ms > self.session_timeout_ms

    def end(self, broker_id: int) -> None:
        """As if the process had died: others see it at once."""
        self.renewed_at_ms.pop(broker_id, None)
        self.owners.pop(broker_id, None)


class MemoryLease:
    """The lease of a broker in this process."""

    ends_by_silence = True

    def __init__(self, leases: MemoryLeases, broker_id: int) -> None:
        self._leases = leases
        self._broker_id = broker_id

    def now_ms(self) -> int:
        return self._leases.now_ms()

    def try_acquire(self) -> LeaseHolder | None:
        leases, broker_id = self._leases, self._broker_id
        if leases.owners.get(broker_id, self) is not self and not leases.is_over(broker_id):
            return LeaseHolder(leases.renewed_at_ms[broker_id], "another broker of this process")
        leases.owners[broker_id] = self
        leases.renewed_at_ms[broker_id] = leases.now_ms()
        return None

    def registered(self, me: BrokerRegistration) -> None:
        self.renew()

    def renew(self) -> None:
        if self._leases.owners.get(self._broker_id) is not self:
            raise FencedError(f"another broker has the lease of broker {self._broker_id}")
        self._leases.renewed_at_ms[self._broker_id] = self._leases.now_ms()

    def is_dead(self, broker: BrokerRegistration, *, judges_silence: bool) -> bool:
        leases = self._leases
        if broker.broker_id not in leases.renewed_at_ms:
            return True
        return judges_silence and leases.is_over(broker.broker_id)

    @contextmanager
    def hold(self, broker: BrokerRegistration) -> Iterator[bool]:
        is_over = self._leases.is_over(broker.broker_id)
        if is_over:
            self._leases.end(broker.broker_id)
        yield is_over

    def release(self) -> None:
        if self._leases.owners.get(self._broker_id) is self:
            self._leases.end(self._broker_id)
