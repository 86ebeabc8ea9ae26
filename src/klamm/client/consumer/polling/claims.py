"""Access to a consumer: one caller at a time."""

from __future__ import annotations

import threading

from klamm.errors import ConcurrentAccessError


class ThreadClaim:
    """Held while a thread is inside; the same thread may enter again, as from a callback."""

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentAccessError(
                f"this consumer is in use by thread {_name_of(self._owner)}; thread "
                f"{threading.current_thread().name} must not call it at the same time. "
                "Only wakeup() may be called from another thread"
            )
        self._owner = threading.get_ident()

    def __exit__(self, *_exception: object) -> None:
        self._lock.release()


def _name_of(ident: int) -> str:
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), str(ident))
