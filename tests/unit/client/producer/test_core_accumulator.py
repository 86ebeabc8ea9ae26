"""Records of several threads, which the compiled core adds to open batches without a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from unit.client.producer.world import World


class Headers(tuple[tuple[str, bytes | None], ...]):  # noqa: SLOT001 - it has an attribute
    """Headers during whose encoding another thread has its turn."""

    meanwhile: Callable[[], object]

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        self.meanwhile()
        return super().__iter__()


def test_no_record_of_another_thread_comes_first_into_a_new_batch_and_takes_its_room() -> None:
    world = World(linger_ms=1000, batch_size=1000)
    accumulator = world.accumulator
    headers = Headers((("name", b"value"),))
    headers.meanwhile = lambda: accumulator.append_keyed(("t", 0), 1000, b"k", b"x" * 900)
    topic = world.core.metadata.cluster.topics["t"]
    delivery = accumulator.append(topic, 0, (1000, b"k", b"y" * 900, headers))
    assert delivery._index == 0
    assert delivery._batch.record_count == 1
