"""Offsets kept by each member itself: for groups whose members all read everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.client.committed import Committed
from klamm.client.consumer.offsets.stores import FileOffsetStore, OffsetStore, SqliteOffsetStore
from klamm.config import ConfigError
from klamm.protocol.api import ApiKey
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])
ANNA, BERT = ("g", "anna"), ("g", "bert")

MakeStore = Callable[[Path], Any]


def a_file_store(folder: Path) -> FileOffsetStore:
    return FileOffsetStore(folder / "offsets")


def a_sqlite_store(folder: Path) -> SqliteOffsetStore:
    return SqliteOffsetStore(folder / "offsets.db")


both = pytest.mark.parametrize("make", [a_file_store, a_sqlite_store])


@both
def test_a_store_remembers_each_owner_apart(make: MakeStore, tmp_path: Path) -> None:
    store = make(tmp_path)
    assert isinstance(store, OffsetStore)
    assert store.load(ANNA, [T0]) == {}
    store.save(ANNA, {T0: Committed(5, 1, "five"), T1: Committed(6)})
    store.save(BERT, {T0: Committed(9)})
    store.save(ANNA, {T0: Committed(7)})
    again = make(tmp_path)
    assert again.load(ANNA, [T0, T1]) == {T0: Committed(7), T1: Committed(6)}
    assert again.load(BERT, [T0, T1]) == {T0: Committed(9)}
    assert again.load(("other", "anna"), [T0]) == {}
    for opened in (store, again):
        if isinstance(opened, SqliteOffsetStore):
            opened.close()


def test_a_file_store_takes_any_name(tmp_path: Path) -> None:
    store = FileOffsetStore(tmp_path)
    odd = ("../订单", "a/b@c")
    store.save(odd, {T0: Committed(1)})
    assert store.load(odd, [T0]) == {T0: Committed(1)}
    assert [path.parent for path in tmp_path.iterdir()] == [tmp_path]


def test_a_file_that_was_being_written_when_the_machine_died_is_not_believed(tmp_path: Path) -> None:
    store = FileOffsetStore(tmp_path)
    store.save(ANNA, {T0: Committed(1)})
    (path,) = tmp_path.glob("*.json")
    path.with_suffix(".tmp").write_text('{"t": {"0": [9')
    assert store.load(ANNA, [T0]) == {T0: Committed(1)}


@both
def test_a_broadcast_member_goes_on_at_its_own_offset_after_a_restart(
    make: MakeStore, tmp_path: Path
) -> None:
    world = World()
    world.cluster.create("t", 1)
    world.cluster.produce(T0, *[b"x"] * 12)
    store = make(tmp_path)

    def a_member(name: str) -> Any:
        return world.consumer(
            "t",
            group_id="g",
            client_id=name,
            partition_assignment_strategy="broadcast",
            offset_store=store,
            max_poll_records=10,
        )

    anna = a_member("anna")
    assert len(anna.poll(1)) == 10
    anna.close()
    bert = a_member("bert")
    assert len(bert.poll(1)) == 10
    assert len(bert.poll(1)) == 2
    bert.commit()
    anna = a_member("anna")
    got = world.settle(anna, bert)
    assert len(got[0]) == 2
    assert got[1] == []
    assert anna.committed([T0])[T0].offset == 10
    assert world.cluster.requests(ApiKey.OFFSET_COMMIT) == []
    if isinstance(store, SqliteOffsetStore):
        store.close()


@pytest.mark.parametrize(
    "settings", [{"client_id": "a"}, {"enable_auto_commit": False}, {"client_id": "", "offset_store": "file"}]
)
def test_broadcast_without_a_place_for_its_offsets_is_refused(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    if "offset_store" in settings:
        settings = {**settings, "offset_store": FileOffsetStore(tmp_path)}
    with pytest.raises(ConfigError):
        World().consumer(group_id="g", partition_assignment_strategy="broadcast", **settings)
