"""kafka-python's future, as `commit_async` returns one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self


class Future:
    """What becomes of a call: settled by a later call of the same client, on the program's thread."""

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.exception: BaseException | None = None
        self._waiting: list[Callable[[], object]] = []

    def succeeded(self) -> bool:
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether it failed in a way that may pass."""
        return self.is_done and bool(getattr(self.exception, "retriable", False))

    def success(self, value: Any) -> Self:
        """Settle it."""
        self.value = value
        return self._settled()

    def failure(self, error: BaseException) -> Self:
        """Settle it with an error."""
        self.exception = error
        return self._settled()

    def _settled(self) -> Self:
        self.is_done = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
        return self

    def _when_settled(self, call: Callable[[], object]) -> Self:
        if self.is_done:
            call()
        else:
            self._waiting.append(call)
        return self

    def add_callback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call `f(..., value)` once it has succeeded."""
        call = partial(f, *args, **kwargs)
        return self._when_settled(lambda: call(self.value) if self.exception is None else None)

    def add_errback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call `f(..., error)` if it fails."""
        call = partial(f, *args, **kwargs)
        return self._when_settled(lambda: None if self.exception is None else call(self.exception))

    def add_both(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Both."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)
