"""What the demo shows of its group: state, owners, lag, and events so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from klamm.client.admin.admin import Admin
from klamm.client.consumer.consumer import Consumer
from klamm.client.diagnosis.lag import GroupLag, lag_of, lag_text
from klamm.client.diagnosis.reading import EVENTS_TOPIC
from klamm.errors import KlammError
from klamm.groups.story import StoryEntry, story_entries
from klamm.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot of the group."""

    state: str = "-"
    assignor: str = "-"
    members: tuple[str, ...] = ()
    group: GroupLag | None = None
    story: tuple[StoryEntry, ...] = ()
    generation: int | None = None  # of this assignment; None until the event that tells it is there

    @property
    def owners(self) -> dict[str, str]:
        """The clients that own partitions."""
        if self.group is None:
            return {}
        rows = self.group.partitions
        return {str(item.partition): self.group.owner(item)[1] for item in rows if item.owner}

    @property
    def lag(self) -> int | None:
        """None if it is not known."""
        return None if self.group is None else self.group.total.lag

    @property
    def lag_text(self) -> str:
        return "-" if self.group is None else lag_text(self.group.total)


class GenerationFollower:
    """Finds the generation of an assignment, which a description of a group does not have.

    Events do, a little later than the description shows what they are about.
    """

    def __init__(self) -> None:
        self._seen: Mapping[str, str] | None = None  # by the last look
        self._owners: Mapping[str, str] | None = None  # in the generation that is known
        self._generation = 0

    def of(self, owners: Mapping[str, str], last_told: int) -> int | None:
        """The generation of what was seen after events told of `last_told`; None if it is not known."""
        is_seen_again, self._seen = owners == self._seen, owners
        # Another assignment is that of a later generation, whose event is there by the second look.
        if is_seen_again and last_told > self._generation:
            self._owners, self._generation = owners, last_told
        return self._generation if owners == self._owners else None


class DemoWatcher:
    """Observes one group through the admin client and the topic of events, as any program can."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._group = group
        self._admin = Admin(bootstrap_servers=bootstrap)
        self._bootstrap = bootstrap
        self._events: Consumer | None = None
        self._story: list[StoryEntry] = []
        self._last_told = 0
        self._generations = GenerationFollower()

    def look(self) -> View:
        self._read_events()
        try:
            found = self._admin.describe_groups(self._group, timeout=5)[self._group]
            lag = lag_of(self._admin, found)
        except KlammError:
            return View(story=tuple(self._story))  # in the middle of a change; the next snapshot shows it
        view = View(
            state=found.state,
            assignor=found.protocol or "-",
            members=tuple(sorted(member.client_id for member in found.members)),
            group=lag,
            story=tuple(self._story),
        )
        if view.state != "Stable":
            return view
        return replace(view, generation=self._generations.of(view.owners, self._last_told))

    def _read_events(self) -> None:
        if self._events is None:
            found = self._admin.describe_topics(EVENTS_TOPIC, raise_errors=False, timeout=5)
            topic = found.successes.get(EVENTS_TOPIC)
            if topic is None:
                return  # no event yet
            self._events = Consumer(bootstrap_servers=self._bootstrap, auto_offset_reset="earliest")
            self._events.assign([TopicPartition(EVENTS_TOPIC, item.partition) for item in topic.partitions])
        events = [json.loads(record.value) for record in self._events.poll(0.05) if record.value]
        mine = [event for event in events if event.get("group_id") == self._group]
        self._story += story_entries(mine)
        for event in mine:
            self._last_told = max(self._last_told, int(event.get("generation_after", 0)))

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
        self._admin.close()
