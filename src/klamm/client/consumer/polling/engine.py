"""A consumer's parts on the client's thread, and the order in which a poll drives them."""

from __future__ import annotations

from typing import Final

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.consumer.fetch.buffer import FetchBuffer
from klamm.client.consumer.fetch.fetching import Fetching
from klamm.client.consumer.group.coordinator import CoordinatorLookup
from klamm.client.consumer.group.fencing import ClassicFencing, EpochFencing
from klamm.client.consumer.group.heartbeating import HeartbeatingMember
from klamm.client.consumer.group.joining import Joining
from klamm.client.consumer.group.leading import Leading
from klamm.client.consumer.group.membership import ConsumerMembership
from klamm.client.consumer.group.rebalance_log import RebalanceLog
from klamm.client.consumer.group.rebalancing import Rebalancing
from klamm.client.consumer.group.reconciling import Reconciling
from klamm.client.consumer.group.roles import Assigning, Fencing, GroupMembership
from klamm.client.consumer.offsets.auto_commit import AutoCommit
from klamm.client.consumer.offsets.commits import Commits
from klamm.client.consumer.offsets.committed import CommittedOffsets
from klamm.client.consumer.offsets.positions import Positions
from klamm.client.consumer.polling.handout import Handout
from klamm.client.consumer.polling.hosts import ConsumerHost
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import CONSUMER_PROTOCOL, ConsumerSettings
from klamm.client.consumer.state import SubscriptionState, SubscriptionType
from klamm.errors import AuthenticationError, broker_error
from klamm.net.cluster import Cluster
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition

REFUSED: Final = (ErrorCode.invalid_topic_exception, ErrorCode.topic_authorization_failed)


class Engine:
    """Everything but the face. Sans-IO: a component of the core, driven by ticks and by polls.

    Positions, fetches and joins advance only during polls; heartbeats and responses always.
    """

    def __init__(self, host: ConsumerHost, settings: ConsumerSettings) -> None:
        core = host.core
        self.core = core
        self.settings = settings
        self.state = SubscriptionState()
        self.inbox = Inbox(host.signal)
        self.buffer = FetchBuffer(self.state, settings)
        self.handout = Handout(self.state, self.buffer)
        self.calls = Calls(
            core,
            RetryPolicy(
                settings.default_api_timeout_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms
            ),
        )
        self.history = RebalanceLog(host.clock, settings.group_id or "", self._assigned)
        self.coordinator = CoordinatorLookup(core, settings, self.calls)
        member: ConsumerMembership | HeartbeatingMember
        fencing: Fencing
        if settings.group_protocol == CONSUMER_PROTOCOL:
            member = HeartbeatingMember(
                core, settings, self.state, self.coordinator, self.inbox, self._last_poll
            )
            fencing = EpochFencing(settings, self.state, member)
        else:
            member = ConsumerMembership(core, settings, self.coordinator, self.inbox, self._last_poll)
            fencing = ClassicFencing(settings, self.state, member)
        self.membership: GroupMembership = member
        self.commits = Commits(core, settings, self.state, self.inbox, self.coordinator, fencing)
        self.auto_commit = AutoCommit(core, settings, self.state, self.commits, self.inbox, host)
        self.committed = CommittedOffsets(core, settings, self.coordinator, fencing, self.commits)
        self.fetching = Fetching(core, settings, self.state, self.buffer, self.inbox)
        self.positions = Positions(
            core,
            settings,
            self.state,
            self.inbox,
            None if settings.group_id is None else self.committed.for_positions,
            self.buffer.drop,
        )
        self.leading = Leading(core, settings, self.calls)
        self.leading.on_outdated = self._check_assigned_topics
        self.rebalancing = Rebalancing(self.state, settings, self.history)
        self.rebalancing.on_applied = self.auto_commit.restart
        self.joining: Assigning
        if isinstance(member, HeartbeatingMember):
            self.joining = Reconciling(
                core, settings, self.inbox, member, self.rebalancing, self.commits, self.history
            )
        else:
            self.joining = Joining(
                core,
                settings,
                self.state,
                self.inbox,
                self.calls,
                self.coordinator,
                member,
                self.leading,
                self.rebalancing,
                self.commits,
                self.history,
            )
        self.joining.on_joined = self._joined
        self.poll_depth = 0  # plain: calls in progress that need progress here; they nest
        self.is_waiting = False  # plain: the poller is waiting for us, so it cannot be late
        self.last_poll_ms = core.now_ms  # plain, as above
        self._refused_topics: dict[str, int] = {}
        self._seen_count = 0
        self._seen_events = -1
        self._due_ms: int | None = None
        core.components.append(self)
        core.metadata.listen(self.on_metadata)
        core.metadata.listen_for_refusal(self._login_refused)

    def _login_refused(self, error: AuthenticationError) -> None:
        """Have the next poll raise it; one error is enough, however often it was tried meanwhile."""
        if not self.inbox.failures:
            self.inbox.fail(error)

    @property
    def is_settled(self) -> bool:
        """Whether only fetching is left to do; a fast check from the poller's thread."""
        return self.positions.are_settled and not (self.state.is_auto and self.membership.needs_rejoin)

    def _last_poll(self) -> int:
        """The instant of the caller's last poll or read."""
        if self.is_waiting or self.handout.count != self._seen_count:
            self._seen_count = self.handout.count
            self.last_poll_ms = max(self.last_poll_ms, self.core.now_ms)
        return self.last_poll_ms

    def on_poll(self) -> None:
        """Start the work that a poll allows. Also called when a poll has made room for another fetch."""
        self._advance()

    def tick(self, now_ms: int) -> int | None:
        """Go on with what is due."""
        due_ms = self.membership.tick(now_ms)
        if not self.poll_depth:
            return due_ms
        is_due = self._due_ms is not None and now_ms >= self._due_ms
        if is_due or self.core.network.event_count != self._seen_events:
            self._advance()
        return _earliest(due_ms, self._due_ms)

    def job_done(self) -> None:
        """A job may have changed what there is to do: the next tick goes on, as after an answer."""
        self._seen_events = -1

    def _advance(self) -> None:
        if self.state.is_auto:
            self.joining.on_poll()
        self._due_ms = _earliest(self.positions.update(), self.fetching.send())
        self._seen_events = self.core.network.event_count

    def look_up_positions(self) -> None:
        """Start the lookups that a position needs."""
        self.positions.update()

    # --- the subscription, on this thread ---------------------------------------------------------------

    def subscription_changed(self) -> None:
        """The subscription or assignment changed: watch its topics, and rejoin if necessary."""
        with self.state.lock:
            kind, topics = self.state.type, self.state.topics
            assigned = {partition.topic for partition in self.state.partitions}
        metadata = self.core.metadata
        match kind:
            case SubscriptionType.AUTO_PATTERN:
                metadata.want_all()
                self._match(metadata.cluster)
            case SubscriptionType.BROKER_PATTERN:
                metadata.want_all()  # the coordinator names what matches by topic ids
            case SubscriptionType.AUTO_TOPICS:
                metadata.want_only(topics | self.leading.topics)
            case SubscriptionType.USER_ASSIGNED:
                metadata.want_only(assigned)
            case SubscriptionType.NONE:
                metadata.want_only(())
        self.joining.on_subscription()

    def on_metadata(self, cluster: Cluster) -> None:
        """New metadata: leaders, topics that match the pattern, or the group's topics may have changed."""
        self.positions.check_epochs()
        self._raise_refused_topics(cluster)
        if self.state.type is SubscriptionType.AUTO_PATTERN:
            self._match(cluster)
            self.joining.on_subscription()
        self.joining.on_metadata(cluster)
        if self.poll_depth:
            self.inbox.signal.set()

    def _assigned(self) -> list[TopicPartition]:
        with self.state.lock:
            return sorted(self.state.partitions)

    def _joined(self) -> None:
        """A join is complete. What has changed since it began needs another one."""
        self.joining.on_subscription()
        self._check_assigned_topics()

    def _check_assigned_topics(self) -> None:
        self.joining.on_metadata(self.core.metadata.cluster)

    def _raise_refused_topics(self, cluster: Cluster) -> None:
        """A topic that the broker refuses for good is an error of the next poll, once."""
        refused = {name: code for name, code in cluster.errors.items() if code in REFUSED}
        for name, code in refused.items():
            if self._refused_topics.get(name) != code and self.state.wants(name):
                self.inbox.fail(broker_error(code, f"topic {name}"))
        self._refused_topics = refused

    def _match(self, cluster: Cluster) -> None:
        hides_internal = self.settings.excludes_internal_topics
        with self.state.lock:
            if self.state.type is SubscriptionType.AUTO_PATTERN and cluster.brokers:
                self.state.match(
                    [
                        topic.name
                        for topic in cluster.topics.values()
                        if not (topic.is_internal and hides_internal)
                    ]
                )


def _earliest(*dues: int | None) -> int | None:
    return min((due for due in dues if due is not None), default=None)
