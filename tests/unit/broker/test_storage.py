"""Opening a broker's folder, or its memory."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from threading import Timer

import pytest

import klamm
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.server import StartError
from klamm.broker.storage import Storage, open_storage
from klamm.clock import ManualClock
from klamm.storage.topic_config import TopicConfig

TOPIC_ID = bytes(range(16))


def opened(*folders: Path, in_memory: bool = False, **settings: str) -> Storage:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_settings({"log.dirs": ",".join(map(str, folders)), **names})
    return open_storage(config, clock=ManualClock(), random=Random(1), sleep=time.sleep, in_memory=in_memory)


def closed(storage: Storage) -> None:
    storage.logs.close()
    storage.cluster.close()
    if storage.lease is not None:
        storage.lease.release()


def test_a_folder_is_made_and_a_node_id_is_one_brokers_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    storage = opened(folder)
    with pytest.raises(StartError, match=r"broker 1 is already running.*choose another node\.id"):
        opened(folder)
    closed(storage)
    closed(opened(folder))


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    closed(opened(tmp_path / "unused", in_memory=True))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_kafka_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=TrxFKrMiQKqPQKclI8YtSg\nnode.id=1\n")
    with pytest.raises(StartError, match="another cluster"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_brokers_of_a_cluster_share_a_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    (folder,) = first.folders
    folder.share()
    second = opened(tmp_path, node_id="7")
    assert [folder.is_alone for folder in second.folders] == [False]
    closed(first)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    closed(second)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_broker_waits_while_another_one_starts_on_the_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    (folder,) = first.folders
    sharing = Timer(0.1, folder.share)
    sharing.start()
    second = opened(tmp_path, node_id="7")
    sharing.join()
    assert [folder.is_alone for folder in second.folders] == [False]
    closed(second)
    closed(first)


def test_a_file_in_the_folders_place_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StartError) as caught:
        opened(tmp_path / "data")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "data") in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(StartError, match="/proc/klamm-data"):
        opened(Path("/proc/klamm-data"))  # not even root can


def test_a_broken_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "klamm.sqlite3").write_bytes(b"not a database, but long enough to be taken for one" * 10)
    with pytest.raises(StartError, match=r"klamm\.sqlite3"):
        opened(tmp_path)


def test_several_folders_share_the_partitions_and_remember_who_has_which(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    storage = opened(*folders)
    for partition in range(4):
        storage.logs.open("t", TOPIC_ID, partition, leader_epoch=0, config=TopicConfig())
    assert [status.path for status in storage.logs.status()] == [str(folder) for folder in folders]
    closed(storage)
    counts = [len(list(folder.glob("t-*"))) for folder in folders]
    assert counts == [2, 2]
    storage = opened(*folders)
    assert sorted(storage.logs.existing()) == [("t", partition, TOPIC_ID) for partition in range(4)]
    storage.logs.open("t", TOPIC_ID, 3, leader_epoch=1, config=TopicConfig())
    storage.logs.delete("t", 3)
    storage.logs.start_checkpoint()()
    storage.logs.start_saving_log_starts()()
    remove = storage.logs.start_housekeeping(10**9)
    assert remove is not None
    remove()
    assert not list(tmp_path.glob("*/*-delete"))
    assert [len(list(folder.glob("t-[0-9]"))) for folder in folders] == [2, 1]
    closed(storage)


def test_a_partition_in_two_folders_is_nobodys(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    closed(opened(*folders))
    for folder in folders:
        (folder / "t-0").mkdir()
    with pytest.raises(StartError, match="t-0 exists in two"):
        opened(*folders)


def test_each_folder_tells_of_the_partitions_that_it_has(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    # Given a broker with two folders
    data = ",".join(map(str, folders))
    with klamm.Broker(data) as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"t": 3})
        # When it is asked for its folders
        found = admin.describe_log_dirs()
    # Then each has its own, and none has the others'
    told = {item.path: {partition.partition for partition in item.partitions} for item in found}
    there = {str(folder): {int(each.name[2:]) for each in folder.glob("t-*")} for folder in folders}
    assert told == there
    assert all(there.values())
