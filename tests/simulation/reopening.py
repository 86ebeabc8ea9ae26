"""Logs opened again from what is on disk: the same answers, however often, with and without indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from klamm.broker.storage import segment_store
from klamm.storage.cluster import ConfigResourceType
from klamm.storage.log import EngineLog
from simulation.log_checker import batches
from simulation.machine import FOLDER

if TYPE_CHECKING:
    from simulation.machine import Machine

Answers = Mapping[str, object]

_REBUILT: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
_NEEDS_ALL: Final = (
    "aborted",
    "producers",
    "epochs",
)  # what deleted records knew cannot be rebuilt without them
_STEPS_MS: Final = 250


def answers(log: EngineLog) -> Answers:
    """What a log says of itself, in all the ways that readers can ask."""
    found = list(batches(log, log.log_start_offset, log.log_end_offset))
    timestamps = [answer.timestamp_ms for answer in (log.offset_for_max_timestamp(),) if answer.offset >= 0]
    for newest in timestamps[:1]:
        timestamps += range(newest - 40 * _STEPS_MS, newest + 2, _STEPS_MS)
    is_whole = log.log_start_offset == 0 and "compact" not in log.config.cleanup_policy
    return {
        "is whole": is_whole,
        "ends": (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        "batches": found,
        "single reads": [
            log.read(offset, until_offset=log.log_end_offset, max_bytes=1, at_least_one=True)
            for base, next_offset, _, _ in found
            for offset in (base, next_offset - 1)
            if offset >= log.log_start_offset
        ],
        "by time": [log.offset_for_timestamp(each, log.log_end_offset) for each in timestamps],
        "aborted": log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        "producers": sorted(log.producers(), key=lambda producer: producer.producer_id),
        "epochs": [log.end_of_epoch(epoch) for epoch in range(log.leader_epoch + 2)],
    }


def complaint_about(machine: Machine) -> str | None:
    """Open all logs again and again; what is not as it was, if anything. The machine is off."""
    first = open_all(machine)
    second = open_all(machine, is_clean=False)
    machine.disk.kill()
    third = open_all(machine)
    if not remove_what_can_be_rebuilt(machine):
        return "there are no indexes at all"
    last = open_all(machine)
    for what, found in (("opened twice", second), ("after kill -9", third), ("without indexes", last)):
        told = difference(first, found, is_rebuilt=found is last)
        if told is not None:
            return f"{what}, {told}"
    return None


def open_all(machine: Machine, *, is_clean: bool = True) -> dict[str, Answers]:
    """Open every log as a broker would, ask, and close in good order or not at all."""
    clock = machine.disk.clock
    logs = segment_store(machine.config, FOLDER, machine.cluster, machine.disk, clock)
    found = {}
    for name, topic in machine.cluster.topics().items():
        config = machine.config.topic_config(machine.cluster.configs(ConfigResourceType.TOPIC, name))
        for state in topic.partitions:
            log = logs.open(
                name, topic.topic_id, state.partition, leader_epoch=state.leader_epoch, config=config
            )
            found[f"{name}-{state.partition}"] = answers(log)
    if is_clean:
        logs.close()
    return found


def remove_what_can_be_rebuilt(machine: Machine) -> int:
    """Indexes and snapshots go; how many files."""
    disk = machine.disk
    doomed = [
        f"{FOLDER}/{directory.name}/{entry.name}"
        for directory in disk.scan(FOLDER)
        if directory.is_directory
        for entry in disk.scan(f"{FOLDER}/{directory.name}")
        if entry.name.endswith(_REBUILT)
    ]
    for path in doomed:
        disk.remove(path)
    return len(doomed)


def difference(
    before: Mapping[str, Answers], after: Mapping[str, Answers], *, is_rebuilt: bool
) -> str | None:
    """Which log answers what differently; None when all is the same."""
    if set(before) != set(after):
        return f"logs {set(before) ^ set(after)}"
    for log, answered in before.items():
        for question, answer in answered.items():
            if is_rebuilt and not answered["is whole"] and question in _NEEDS_ALL:
                continue
            if after[log][question] != answer:
                return f"{log}: {question}: {answer} became {after[log][question]}"[:2000]
    return None
