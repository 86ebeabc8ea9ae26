"""What `send_and_wait` returns: a future of the event loop that passes for a coroutine, too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from klamm.client.producer.delivery import Delivery, RecordMetadata


class Sending(asyncio.Future[RecordMetadata], Coroutine[Any, Any, RecordMetadata]):
    """A record on its way; awaiting it returns the record's partition and offset, or raises.

    `asyncio.gather` makes a task of each coroutine, which costs more than sending a record; futures it takes
    as they are. `create_task` wants a coroutine, so this has the methods of one.
    """

    def follow(self, delivery: Delivery) -> None:
        """Have the outcome of a delivery; called in the loop's thread."""
        self._delivery = delivery
        if not delivery.call_when_settled(self.get_loop(), self._settle):
            self._settle()

    def _settle(self) -> None:
        if self.done():  # cancelled: the record is sent all the same
            return
        metadata, error = self._delivery.outcome()
        if error is not None:
            self.set_exception(error)
        elif metadata is not None:
            self.set_result(metadata)

    def follow_send(self, task: asyncio.Task[Delivery]) -> None:
        """Have the outcome of what a task sends; cancelled with each other."""
        self._task = task
        task.add_done_callback(self._sent)
        self.add_done_callback(self._cancel_task)

    def _sent(self, task: asyncio.Task[Delivery]) -> None:
        if task.cancelled():
            self.cancel()
        elif (error := task.exception()) is None:
            self.follow(task.result())
        elif not self.done():  # else nobody waits for it any more
            self.set_exception(error)

    def _cancel_task(self, _settled: asyncio.Future[RecordMetadata]) -> None:
        self._task.cancel()  # of a task that has ended this does nothing

    # The methods of a coroutine: one that waits for this future.

    def _steps(self) -> Generator[Any, None, RecordMetadata]:
        found: Generator[Any, None, RecordMetadata] | None = getattr(self, "_own_steps", None)
        if found is None:
            found = self._own_steps = self._waited_for()
        return found

    def _waited_for(self) -> Generator[Any, None, RecordMetadata]:
        return (yield from self)

    def send(self, value: Any, /) -> Any:
        return self._steps().send(value)

    def throw(self, *error: Any) -> Any:
        return self._steps().throw(*error)

    def close(self) -> None:
        self._steps().close()
