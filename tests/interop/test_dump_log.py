"""Kafka's dump tool reads our segment files: every batch, every index entry, every producer snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from interop.harness import COMPRESSIONS, START_MS, ClientProcess, Record
from interop.kafka_tools import run_kafka_tool
from interop.processes import KlammProcess

ClientFactory = Callable[[str], ClientProcess]
FAULTS = re.compile(r"Mismatches in|not found in|isvalid: false|Exception|corrupt", re.IGNORECASE)


def dump(files: Sequence[Path], *options: str) -> str:
    """What the dump tool prints; it always exits with 0, so its faults are read from its words."""
    done = run_kafka_tool("DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    assert FAULTS.search(done.stdout + done.stderr) is None, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(client: ClientFactory, topic: str) -> None:
    """Three megabytes in small batches with every compression: three segments, hundreds of index entries."""
    noise = Random(topic)
    writer = client("franz-go")
    client("confluent").create_topic(topic, segment_bytes="1048576")
    for turn, compression in enumerate(COMPRESSIONS):
        records = [
            Record(timestamp_ms=START_MS + turn * 1000 + n, key=b"k%d" % n, value=noise.randbytes(1200))
            for n in range(500)
        ]
        writer.produce(topic, records, compression=compression, idempotent=True, batch_records=10)


def check(files: Sequence[Path], record_count: int) -> None:
    """Deep iteration over the batches, and both indexes against them."""
    logs = [file for file in files if file.suffix == ".log"]
    indexes = [file for file in files if file.suffix in {".index", ".timeindex"}]
    printed = dump(logs, "--deep-iteration", "--print-data-log")
    assert len(re.findall(r"^\| offset: ", printed, re.MULTILINE)) == record_count
    dump(indexes, "--verify-index-only")
    dump(indexes, "--index-sanity-check")
    entries = dump(indexes)
    assert len(re.findall(r"^offset: \d+ position: \d+", entries, re.MULTILINE)) > 50
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", entries, re.MULTILINE)) > 50


def test_the_dump_tool_finds_no_fault_in_rolled_segments_of_a_running_broker(
    client: ClientFactory, topic: str, data_dir: Path
) -> None:
    fill(client, topic)
    folder = data_dir / f"{topic}-0"
    bases = sorted(file.stem for file in folder.glob("*.log"))
    assert len(bases) > 1
    rolled = [file for file in sorted(folder.iterdir()) if file.stem in bases[:-1]]
    check(rolled, record_count=int(bases[-1]))
    snapshots = sorted(folder.glob("*.snapshot"))
    assert re.search(r"producerId: \d+ producerEpoch: 0", dump(snapshots))


def test_the_dump_tool_finds_no_fault_in_anything_that_a_stopped_broker_left(
    tmp_path: Path, topic: str
) -> None:
    with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log") as broker:
        clients = {
            name: ClientProcess(name, broker.bootstrap, stderr_path=tmp_path / f"{name}.log")
            for name in ("confluent", "franz-go")
        }
        fill(clients.__getitem__, topic)
        for client in clients.values():
            client.close()
        assert broker.stop() == 0
    folder = tmp_path / "data" / f"{topic}-0"
    check(sorted(folder.iterdir()), record_count=2500)
    assert "producerId" in dump(sorted(folder.glob("*.snapshot")))
