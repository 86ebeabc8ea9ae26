"""What the control port shows of topics and groups, and waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from klamm.client.consumer.record_json import record_as_json
from klamm.durations import nanoseconds
from klamm.testing.control_faults import FaultOrders
from klamm.testing.observation import Group, NotKnownError, total_of

if TYPE_CHECKING:
    from klamm.testing.broker import Broker

T = TypeVar("T")

STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
DEFAULT_TIMEOUT: Final = "30s"
_MAX_TIMEOUT_NS: Final = 3_600_000_000_000


class WaitedInVain(Exception):  # noqa: N818 - as it reads
    """What was waited for has not come; the message says what there is, and the story."""


class Looks:
    """Looks at one broker, from any thread. Raises ValueError for what makes no sense."""

    def __init__(self, broker: Broker, faults: FaultOrders) -> None:
        self._broker = broker
        self._faults = faults
        # The clients that look are used by one thread at a time, and not while the broker ends.
        self.lock = threading.Lock()

    # --- now -----------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, Any]:
        with self.lock:
            found = self._broker.topics()
        return {"topics": [{"topic": name, "partitions": count} for name, count in sorted(found.items())]}

    def create_topic(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name, configs = body.get("name"), body.get("configs") or {}
        partitions = body.get("partitions", -1)
        if not isinstance(name, str):
            raise ValueError(f"invalid name {name!r}: expected the name of a topic")
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not -1 <= partitions < 10_000:
            raise ValueError(f"invalid partitions {partitions!r}: expected a number from 1 to 9999")
        if not isinstance(configs, dict):
            raise ValueError(
                f'invalid configs {configs!r}: expected an object, as {{"retention.ms": "1000"}}'
            )
        with self.lock:
            self._broker.create_topic(name, partitions, {key: str(value) for key, value in configs.items()})
            return {"topic": name, "partitions": self._broker.topics().get(name, partitions)}

    def records(self, topic: str, is_committed: bool) -> dict[str, Any]:
        with self.lock:
            try:
                found = self._broker.records(topic, committed=is_committed)
            except NotKnownError:
                return {"topic": topic, "exists": False, "records": None}
        return {
            "topic": topic,
            "exists": True,
            "records": [record_as_json(each) for each in found],
        }

    def group(self, group_id: str) -> dict[str, Any]:
        with self.lock:
            return _group_as_json(self._broker.group(group_id))

    def story(self, key: str | None, has_times: bool = False) -> dict[str, Any]:
        return {"story": self._broker.story(key, times=has_times)}

    # --- as soon as it is so -------------------------------------------------------------------------------

    def group_when(self, group_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A group that has this state, these members or so many, and at most this lag."""
        state, members, lag = (body.get(name) for name in ("state", "members", "lag"))
        if state is None and members is None and lag is None:
            raise ValueError("nothing to wait for: expected state, members or lag")
        if state is not None and state not in STATES:
            raise ValueError(f"invalid state {state!r}: expected one of {', '.join(STATES)}")
        if isinstance(members, list):
            if not all(isinstance(name, str) for name in members):
                raise ValueError(f"invalid members {members!r}: expected their names, or a number")
        elif members is not None:
            _number("members", body)
        if lag is not None:
            _number("lag", body)

        def is_so(group: dict[str, Any]) -> bool:
            names = sorted(each["name"] for each in group["members"])
            return (
                (state is None or group["state"] == state)
                and (members is None or _are(members, names))
                and (lag is None or (group["total_lag"] is not None and group["total_lag"] <= lag))
            )

        return self._wait(
            lambda: self.group(group_id), is_so, body, lambda found: f"the lag of {found['summary']}"
        )

    def records_when(self, topic: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The records of a topic that has so many or more."""
        wanted, is_committed = _number("records", body), body.get("committed", True)
        if not isinstance(is_committed, bool):
            raise ValueError(f"invalid committed {is_committed!r}: expected true or false")
        return self._wait(
            lambda: self.records(topic, is_committed),
            lambda found: found["exists"] and len(found["records"]) >= wanted,
            body,
            lambda found: (
                f"topic {topic} has {len(found['records'])} records, expected {wanted}"
                if found["exists"]
                else f"topic {topic} does not exist"
            ),
        )

    def story_when(self, key: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """A story with an event whose line has this text."""
        text = body.get("event")
        if not isinstance(text, str) or not text:
            raise ValueError(f"invalid event {text!r}: expected a part of its line in the story")
        return self._wait(
            lambda: self.story(key),
            lambda found: text in found["story"],
            body,
            lambda _: f"no event has {text!r}",
        )

    def fault_when(self, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """A fault that has happened so many times or more."""
        wanted = _number("count", body)
        return self._wait(
            lambda: self._faults.described(number),
            lambda fault: fault["count"] >= wanted,
            body,
            lambda fault: f"fault {number} has happened {fault['count']} times, expected {wanted}",
        )

    def _wait(
        self,
        look: Callable[[], T],
        is_so: Callable[[T], bool],
        body: Mapping[str, Any],
        in_words: Callable[[T], str],
    ) -> T:
        timeout = body.get("timeout", DEFAULT_TIMEOUT)
        if not isinstance(timeout, str):
            raise ValueError(f"invalid timeout {timeout!r}: expected a duration, as 30s")
        if not 0 <= nanoseconds(timeout) <= _MAX_TIMEOUT_NS:
            raise ValueError(f"invalid timeout {timeout!r}: expected at most 1h")
        found: list[T] = []

        def looked() -> bool:
            found[:] = [look()]
            return is_so(found[0])

        try:
            # Clients of other languages keep their own time, and the broker's may be stopped.
            self._broker.wait_until(looked, timeout, real_time=True)
        except AssertionError:
            story = self._broker.story(times=True)
            raise WaitedInVain(f"not so after {timeout}: {in_words(found[0])}\n{story}".rstrip()) from None
        return found[0]


def _number(name: str, body: Mapping[str, Any]) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"invalid {name} {value!r}: expected a number from 0 on")
    return value


def _are(members: int | list[str], names: list[str]) -> bool:
    return len(names) == members if isinstance(members, int) else names == sorted(members)


def _group_as_json(group: Group) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "members": [
            {
                "name": name,
                "assignment": [{"topic": each.topic, "partition": each.partition} for each in assigned],
            }
            for name, assigned in group.assignment.items()
        ],
        "offsets": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed": row.committed,
                "start": None if row.log is None else row.log.start,
                "end": None if row.log is None else row.log.end,
                "lag": row.lag,
                "status": row.status.value,
            }
            for row in group.partitions
        ],
        "total_lag": total_of(group).lag,
        "summary": str(group),
    }
