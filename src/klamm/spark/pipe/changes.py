"""Which changes of a job its checkpoint survives: the job compared with the record of its last run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from klamm.spark.pipe.checkpoints import Checkpoint
from klamm.spark.pipe.plan import PlanFacts
from klamm.spark.pipe.record import JobRecord


class ChangeVerdict(Enum):
    """What becomes of the checkpoint."""

    GOES_ON = "goes on"
    GOES_ON_WITH = "goes on, with"
    NEEDS_CHECKPOINT = "needs a new checkpoint:"
    NOT_KNOWN = "not known:"


@dataclass(frozen=True, slots=True)
class JobChange:
    """One difference, and what it means."""

    setting: str
    verdict: ChangeVerdict
    text: str = ""

    @property
    def needs_checkpoint(self) -> bool:
        return self.verdict is ChangeVerdict.NEEDS_CHECKPOINT

    def __str__(self) -> str:
        return f"{self.setting}: {self.verdict.value}{f' {self.text}' if self.text else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A job as it was and as it is."""

    was: JobRecord
    now: JobRecord
    checkpoint: Checkpoint

    def differs(self, name: str) -> bool:
        return bool(self.was.settings.get(name) != self.now.settings.get(name))

    def old(self, name: str) -> Any:
        return self.was.settings.get(name)

    def new(self, name: str) -> Any:
        return self.now.settings.get(name)

    @property
    def unfinished(self) -> str | None:
        """The batch that is run again, in words."""
        return (
            None
            if self.checkpoint.is_done
            else f"batch {self.checkpoint.batch_id} was begun and not finished"
        )


def changes(was: JobRecord, now: JobRecord, checkpoint: Checkpoint) -> list[JobChange]:
    """Every difference between the last run and the job as it is now, in the order of a job's file."""
    both = Comparison(was=was, now=now, checkpoint=checkpoint)
    return [change for rule in _RULES for change in rule(both)]


def _cluster(both: Comparison) -> Iterator[JobChange]:
    was, now = both.was.cluster_id, both.now.cluster_id
    if was is not None and now is not None and was != now:
        yield JobChange(
            "bootstrap",
            ChangeVerdict.NEEDS_CHECKPOINT,
            f"its offsets are those of cluster {was}, this is cluster {now}; migrate starts at the offsets "
            "that the group has committed there",
        )


def _name(both: Comparison) -> Iterator[JobChange]:
    if not both.differs("name"):
        return
    old, new = both.old("name"), both.new("name")
    if both.unfinished and both.old("delivery") == "exactly-once":
        yield JobChange(
            "name",
            ChangeVerdict.NEEDS_CHECKPOINT,
            f"{both.unfinished}, and only transactional id {old} tells whether it was committed",
        )
    else:
        text = f"group and transactional id {new}; group {old} keeps its last offsets"
        yield JobChange("name", ChangeVerdict.GOES_ON_WITH, text)


def _delivery(both: Comparison) -> Iterator[JobChange]:
    if not both.differs("delivery"):
        return
    if both.new("delivery") == "exactly-once":
        what = both.unfinished
        text = (
            f"what of it is written already, since {what}"
            if what
            else "each batch in a transaction from now on"
        )
    else:
        text = "records twice after a failure, as at-least-once delivery has it"
    yield JobChange("delivery", ChangeVerdict.GOES_ON_WITH, text)


def _topics(both: Comparison) -> Iterator[JobChange]:
    was, now = set(both.old("source.topics") or ()), set(both.new("source.topics") or ())
    if was and not was & now:
        yield JobChange(
            "source.topics",
            ChangeVerdict.NEEDS_CHECKPOINT,
            f"it is of a job that reads {', '.join(sorted(was))}, and none of these is read now",
        )
        return
    for name in sorted(now - was):
        yield JobChange("source.topics", ChangeVerdict.GOES_ON_WITH, f"all records of {name}")
    for name in sorted(was - now):
        yield JobChange("source.topics", ChangeVerdict.GOES_ON_WITH, f"what is unread of {name} left out")


_OF_STATE: Final = ("source.format", "source.schema", "transform.sql", "transform.function", "code")


def _transform(both: Comparison) -> Iterator[JobChange]:
    """Whatever can change the plan. Without state, batches do not depend on one another."""
    found = [name for name in _OF_STATE if both.differs(name)]
    if both.differs("transform.function") and "code" in found:
        found.remove("code")
    names = ["the code of transform.function" if name == "code" else name for name in found]
    if not both.checkpoint.has_state:
        for name in names:
            yield JobChange(name, ChangeVerdict.GOES_ON_WITH, "the new one from the next batch on")
        return
    was, now = both.was.plan, both.now.plan
    if was is not None and now is not None:
        kept = _compared_state(was, now)
        if kept is not None:
            yield JobChange(" and ".join(names) or "state", ChangeVerdict.NEEDS_CHECKPOINT, kept)
        else:
            for name in names:
                yield JobChange(
                    name,
                    ChangeVerdict.GOES_ON_WITH,
                    "the state as it is, and the new one from the next batch on",
                )
        return
    for name in names:
        yield JobChange(name, ChangeVerdict.NOT_KNOWN, "the query keeps state; --spark has Spark compare it")


def _compared_state(was: PlanFacts, now: PlanFacts) -> str | None:
    """Why the state of one plan is of no use to the other; None if it can be kept."""
    if was.source_count != now.source_count:
        return f"the transform reads its input {_times(now.source_count)}, before {_times(was.source_count)}"
    if was.state == now.state:
        return None
    if not now.state:
        return "the query kept state, and does not any more"
    if not was.state:
        return "the query keeps state now, and did not before"
    pairs = [(one, two) for one, two in zip(was.state, now.state, strict=False) if one != two]
    one, two = pairs[0] if pairs else (was.state[-1], now.state[-1])
    return f"its state is of another shape: before {one}; now {two}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _new_state(both: Comparison) -> Iterator[JobChange]:
    """State that begins: Spark reads none for the batches before, and would fail."""
    was, plan = both.was.plan, both.now.plan
    if both.checkpoint.has_state or plan is None or not plan.state or (was and was.state == plan.state):
        return
    yield JobChange(
        "transform", ChangeVerdict.NEEDS_CHECKPOINT, "the query keeps state now, and the checkpoint has none"
    )


def _sources(both: Comparison) -> Iterator[JobChange]:
    was, now = both.was.plan, both.now.plan
    if both.checkpoint.has_state or was is None or now is None or was.source_count == now.source_count:
        return
    yield JobChange(
        "transform",
        ChangeVerdict.NEEDS_CHECKPOINT,
        f"the transform reads its input {_times(now.source_count)}, before {_times(was.source_count)}",
    )


def _dead_letters(both: Comparison) -> Iterator[JobChange]:
    if not both.differs("source.dead_letters"):
        return
    new = both.new("source.dead_letters")
    text = f"values that do not fit in {new}" if new else "an end at the next value that does not fit"
    yield JobChange("source.dead_letters", ChangeVerdict.GOES_ON_WITH, text)


def _sink(both: Comparison) -> Iterator[JobChange]:
    if both.differs("sink.topic"):
        text = f"results in {both.new('sink.topic')}; those before stay in {both.old('sink.topic')}"
        yield JobChange("sink.topic", ChangeVerdict.GOES_ON_WITH, text)
    for name in ("sink.key", "sink.format", "sink.schema"):
        if both.differs(name):
            yield JobChange(name, ChangeVerdict.GOES_ON_WITH, "the new one from the next batch on")
    if both.differs("sink.mode"):
        if both.checkpoint.has_state:
            text = f"state of output mode {both.old('sink.mode')} is not that of mode {both.new('sink.mode')}"
            yield JobChange("sink.mode", ChangeVerdict.NEEDS_CHECKPOINT, text)
        else:
            yield JobChange("sink.mode", ChangeVerdict.GOES_ON)
    if _option(both.was, "txn.mode") != _option(both.now, "txn.mode") and both.unfinished:
        text = f"{both.unfinished}, and only the former txn.mode can tell whether it was committed"
        yield JobChange("sink.options txn.mode", ChangeVerdict.NEEDS_CHECKPOINT, text)


def _option(record: JobRecord, name: str) -> Any:
    found = {key.lower(): value for key, value in (record.settings.get("sink.options") or {}).items()}
    return found.get(name, "shared")


_WITHOUT_EFFECT: Final = (
    "trigger",
    "schema_registry",
    "source.max_per_batch",
    "source.options",
    "sink.parallelism",
    "sink.options",
)


def _plain(both: Comparison) -> Iterator[JobChange]:
    """What a checkpoint does not depend on."""
    if both.differs("source.start"):
        yield JobChange(
            "source.start",
            ChangeVerdict.GOES_ON_WITH,
            "the offsets of the checkpoint: a start is for a first run",
        )
    for name in _WITHOUT_EFFECT:
        if both.differs(name):
            yield JobChange(name, ChangeVerdict.GOES_ON)


_SHUFFLE: Final = "spark.sql.shuffle.partitions"


def _spark(both: Comparison) -> Iterator[JobChange]:
    was: Mapping[str, str] = both.old("spark") or {}
    now: Mapping[str, str] = both.new("spark") or {}
    if was.get(_SHUFFLE) != now.get(_SHUFFLE) and both.checkpoint.has_state:
        text = "the number of the checkpoint: state is stored by it"
        yield JobChange(_SHUFFLE, ChangeVerdict.GOES_ON_WITH, text)
    if _release(both.now.spark) < _release(both.was.spark) and both.checkpoint.has_state:
        yield JobChange(
            "Spark",
            ChangeVerdict.NEEDS_CHECKPOINT,
            f"its state was written by Spark {both.was.spark}; {both.now.spark} may not read it",
        )
    elif both.now.spark != both.was.spark:
        yield JobChange(
            "Spark", ChangeVerdict.GOES_ON_WITH, f"Spark {both.now.spark}, before {both.was.spark}"
        )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


_RULES: Final[tuple[Callable[[Comparison], Iterator[JobChange]], ...]] = (
    _cluster,
    _name,
    _delivery,
    _topics,
    _transform,
    _new_state,
    _sources,
    _dead_letters,
    _sink,
    _plain,
    _spark,
)
