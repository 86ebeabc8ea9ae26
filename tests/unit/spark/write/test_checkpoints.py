"""What the sink reads in Spark's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.protocol.types import TopicPartition
from klamm.spark.write.decisions import BatchKey, running_batch, source_offsets


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q1"}')
    for number in (9, 10):
        text = json.dumps({"orders": {"0": number}})
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{text}")
        (folder / "offsets" / f".{number}.crc").touch()
    return folder


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/", "checkpoint", "./checkpoint"])
def test_a_checkpoint_is_found_however_it_is_named(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(checkpoint.parent)
    location = form.format(checkpoint)
    assert running_batch(location) == BatchKey("q1", 10)
    assert source_offsets(location, 9) == {TopicPartition("orders", 0): 9}


def test_a_checkpoint_that_is_new_or_elsewhere_is_not_known(tmp_path: Path) -> None:
    assert running_batch(str(tmp_path)) is None
    assert running_batch("nosuchscheme://host/checkpoint") is None
