"""Three broker processes on one folder: killed, suspended, stopped; nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest

from faults.folder_cluster import TOPIC, FolderCluster, Promises
from interop.test_dump_log import dump
from klamm.testing import wait_until

SEED: Final = int(os.environ.get("KLAMM_CLUSTER_SEED", "14"))
ROUNDS: Final = int(os.environ.get("KLAMM_CLUSTER_ROUNDS", "5"))

Begin = Callable[..., FolderCluster]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[FolderCluster] = []

    def start(**arguments: object) -> FolderCluster:
        begun.append(FolderCluster(tmp_path, **arguments))  # type: ignore[arg-type]
        return begun[-1]

    yield start
    for cluster in begun:
        cluster.close()


def led_by(cluster: FolderCluster, *brokers: int) -> bool:
    return {leader for leader, _ in cluster.leaders().values()} <= set(brokers)


@pytest.mark.timeout(300)
def test_brokers_are_killed_stopped_and_suspended_and_nothing_acknowledged_is_lost(begin: Begin) -> None:
    # scenarios 29, 35, 36, 40, 42, 48, 51
    cluster = begin()
    random = Random(SEED)
    promises = Promises(cluster.bootstrap)
    for _ in range(ROUNDS):
        time.sleep(random.uniform(0.3, 1.0))
        for ended in cluster.ended():  # on a busy machine others may have taken it for stuck
            cluster.kill(ended)
            cluster.start(ended)
        broker_id = random.choice(sorted(cluster.running))
        event = random.choice(("kill", "stop", "pause", "suspend"))
        if event == "pause":
            cluster.suspend(broker_id, 0.3)
            continue
        if event == "suspend":
            cluster.suspend(broker_id, 5.0)
            if broker_id in cluster.ended():
                cluster.kill(broker_id)
            else:
                continue  # the others were too busy to judge it
        elif event == "kill":
            cluster.kill(broker_id)
        else:
            cluster.stop(broker_id)
        time.sleep(random.uniform(0.2, 0.8))
        cluster.start(broker_id)
    promises.end()
    assert promises.sent
    assert promises.committed
    assert promises.transactions
    promises.check()


@pytest.mark.timeout(200)
def test_a_killed_broker_s_partitions_are_taken_over_and_no_others_move(begin: Begin) -> None:
    # scenario 35
    cluster = begin()
    promises = Promises(cluster.bootstrap, groups=1)
    before = cluster.leaders()
    cluster.kill(1)
    wait_until(lambda: led_by(cluster, 2, 3), "60s")
    after = cluster.leaders()
    for partition, (leader, epoch) in before.items():
        expected = (after[partition][0], epoch + 1) if leader == 1 else (leader, epoch)
        assert after[partition] == expected
    promises.end()
    promises.check()


@pytest.mark.timeout(200)
def test_all_brokers_stop_at_once_and_the_next_start_recovers_nothing(begin: Begin, tmp_path: Path) -> None:
    # scenarios 30, 41
    cluster = begin()
    promises = Promises(cluster.bootstrap, groups=1)
    time.sleep(0.5)
    promises.end()
    for process in cluster.running.values():
        process.process.terminate()
    for broker_id in list(cluster.running):
        with cluster.running.pop(broker_id) as stopped:
            assert stopped.process.wait(60) == 0
    checkpoints = [path.read_text() for path in cluster.data_dir.glob("*/klamm.checkpoint")]
    assert checkpoints
    assert all("\nis_clean: 1\n" in text for text in checkpoints)
    cluster.start(2)
    wait_until(lambda: led_by(cluster, 2), "60s")
    promises.check()
    assert "recovering" not in cluster.logs()


@pytest.mark.timeout(200)
def test_a_suspended_broker_is_waited_for_if_the_settings_say_so(begin: Begin) -> None:
    # scenario 51
    cluster = begin(settings={"klamm.fence": "wait"})
    promises = Promises(cluster.bootstrap, groups=1)
    before = cluster.leaders()
    cluster.suspend(1, 5.0)
    assert cluster.ended() == []
    assert cluster.leaders() == before
    promises.end()
    promises.check()


@pytest.mark.timeout(200)
def test_no_two_processes_have_a_partition_s_files_open_while_it_moves(begin: Begin) -> None:
    # scenario 73
    cluster = begin()
    promises = Promises(cluster.bootstrap, groups=1)
    for broker_id in (1, 2, 3):
        # They are opened when they are written to.
        wait_until(partial(has_open_files, cluster, broker_id), "60s")
        cluster.stop(broker_id)
        for _ in range(5):
            both = [owners for owners in doubly_open(cluster) if owners]
            assert both == []
        cluster.start(broker_id)
    promises.end()
    promises.check()


@pytest.mark.timeout(200)
def test_a_batch_that_its_leader_wrote_in_part_is_cut_by_the_next_one(begin: Begin) -> None:
    # scenario 74
    # Nothing may move but by the take-over: a log that is torn while another broker has it open is damaged.
    cluster = begin(settings={"auto.leader.rebalance.enable": "false"})
    promises = Promises(cluster.bootstrap, groups=1)
    wait_until(lambda: len(promises.sent) > 200, "60s")
    promises.end()
    before = cluster.leaders()
    led = [partition for partition, (leader, _) in before.items() if leader == 1]
    assert led
    cluster.pause(2, 3)
    cluster.kill(1)
    for partition in led:
        (segment,) = (cluster.data_dir / f"{TOPIC}-{partition}").glob("*.log")
        with segment.open("r+b") as file:
            torn = file.read(70)  # a whole header, and not all of its records
            file.seek(0, os.SEEK_END)
            file.write(torn)
    cluster.resume(2, 3)
    wait_until(lambda: led_by(cluster, 2, 3), "60s")
    promises.check()
    after = cluster.leaders()
    for partition, (leader, epoch) in before.items():
        assert after[partition] == ((after[partition][0], epoch + 1) if leader == 1 else (leader, epoch))
    for partition in led:
        (segment,) = (cluster.data_dir / f"{TOPIC}-{partition}").glob("*.log")
        assert f"{TOPIC}-{partition}/{segment.name} at " in cluster.logs()
        printed = dump([segment], "--deep-iteration")
        assert "baseOffset: 0 " in printed
        assert "invalid bytes" not in printed
    assert "its leader stopped or died" in cluster.logs()
    assert "handed it over" not in cluster.logs()


def open_partitions(cluster: FolderCluster) -> dict[int, set[str]]:
    """The partitions whose segments each broker process has open for the moment."""
    found: dict[int, set[str]] = {}
    for broker_id, process in cluster.running.items():
        for link in Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except FileNotFoundError:
                continue
            if target.startswith(str(cluster.data_dir)) and target.endswith(".log"):
                found.setdefault(broker_id, set()).add(Path(target).parent.name)
    return found


def has_open_files(cluster: FolderCluster, broker_id: int) -> bool:
    return broker_id in open_partitions(cluster)


def doubly_open(cluster: FolderCluster) -> list[set[str]]:
    # Two looks at each process: a partition may move between looking at one process and at the next.
    first, second = open_partitions(cluster), open_partitions(cluster)
    steady = {broker_id: first.get(broker_id, set()) & second.get(broker_id, set()) for broker_id in first}
    ids = sorted(steady)
    return [steady[one] & steady[other] for n, one in enumerate(ids) for other in ids[n + 1 :]]
