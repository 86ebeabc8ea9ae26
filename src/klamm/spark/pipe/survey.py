"""What a job finds on its cluster: its topics, its progress, and what keeps it from running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import TransactionDescription
from klamm.client.config import ADMIN
from klamm.errors import BrokerError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.schemas.registry_client import SchemaRegistryError
from klamm.spark.options.limits import Named
from klamm.spark.options.options import SinkOptions, SourceOptions, for_client, sink_options, source_options
from klamm.spark.pipe.changes import JobChange
from klamm.spark.pipe.checkpoints import Checkpoint, CheckpointError
from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.fitting import JobStanding, standing
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.plan import PlanFacts
from klamm.spark.pipe.record import record_of
from klamm.spark.pipe.replacing import whole_checkpoint
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import EARLIEST, LATEST, Positions
from klamm.spark.read.resolution import starting_positions
from klamm.spark.schemas.options import read_schemas
from klamm.spark.write.decisions import decode_decisions, last_batch, sink_group
from klamm.spark.write.slots import driver_id

_TIMEOUT: Final = "default.api.timeout.ms"
_UNKNOWN: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found. A job with problems would not run, or not as it is meant to."""

    cluster_id: str
    broker_count: int
    partition_counts: Mapping[str, int | None]  # by topic, in the order of the job; None: it does not exist
    checkpoint: Checkpoint | None
    start: Positions  # of the next batch
    unread_count: int  # offsets from there to the ends of the logs
    committed: Positions  # of the job's group
    creates: tuple[str, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    changes: tuple[JobChange, ...] = ()  # since the last run on this checkpoint
    misfit: str | None = None  # why the checkpoint cannot be read

    @property
    def needs_checkpoint(self) -> bool:
        return self.misfit is not None or any(change.needs_checkpoint for change in self.changes)


def options_of(job: Job, timeout_s: float) -> tuple[SourceOptions, SinkOptions]:
    """The options of both ends, for requests that take so long at most. Raises ConfigError."""
    timeout_ms = {_TIMEOUT: str(round(timeout_s * 1000))}
    source = source_options(reading(job), is_streaming=True)
    sink = sink_options(writing(job))
    return (
        replace(source, client={**source.client, **timeout_ms}, lookup_attempts=1),
        replace(sink, client={**sink.client, **timeout_ms}),
    )


def missing_at_start(job: Job, *, timeout_s: float) -> list[str]:
    """A line for each topic of the job that does not exist, or for its schemas.

    Raises KlammError when the cluster is away, ConfigError when the registry does not have the schema.
    """
    source, sink = options_of(job, timeout_s)
    with (
        Admin(for_client(source.client, ADMIN)) as from_admin,
        Admin(for_client(sink.client, ADMIN)) as to_admin,
    ):
        missing = _missing(job, _counts(job, from_admin, to_admin))
    return missing or _without_schemas(source)


def survey(job: Job, *, timeout_s: float, plan: PlanFacts | None = None) -> Survey:
    """Look at everything that the job depends on; changes nothing. Raises KlammError, ConfigError.

    With the `plan` of the query, as Spark makes it, its state is compared with that of the checkpoint.
    """
    job = replace(job, checkpoint=whole_checkpoint(job.checkpoint))
    source, sink = options_of(job, timeout_s)
    lookup = ClusterLookup(source)
    try:
        with Admin(for_client(sink.client, ADMIN)) as to_admin:
            return _surveyed(job, source, sink, lookup, to_admin, plan)
    finally:
        lookup.close()


def _surveyed(
    job: Job,
    source: SourceOptions,
    sink: SinkOptions,
    lookup: ClusterLookup,
    to_admin: Admin,
    plan: PlanFacts | None,
) -> Survey:
    admin = lookup.admin
    cluster = admin.describe_cluster()
    counts = _counts(job, admin, to_admin)
    problems = _missing(job, counts) or _without_schemas(source)
    found, misfit = _standing(job, cluster.cluster_id, plan)
    checkpoint = found.checkpoint
    if misfit is None:
        misfit = _behind(found, to_admin)
    partitions = [
        TopicPartition(topic, number) for topic in job.topics for number in range(counts[topic] or 0)
    ]
    firsts = lookup.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = lookup.offsets(dict.fromkeys(partitions, LATEST))
    committed = lookup.committed(job.name, partitions) if partitions else {}
    if checkpoint is not None:
        start = {key: checkpoint.next_offsets.get(key, firsts[key]) for key in partitions}
        lost = lost_offsets(start, firsts, ends)
    elif found.record is not None and found.record.start is not None:
        start = {key: found.record.start.get(key, firsts[key]) for key in partitions}
        lost = lost_offsets(start, firsts, ends)
    else:
        start = starting_positions(source, lookup, partitions) if partitions else {}
        lost = []
    problems += lost if source.fails_on_data_loss else []
    problems += _occupied(job, to_admin)
    warnings = [] if source.fails_on_data_loss else lost
    is_new = checkpoint is None and misfit is None and found.record is None
    if is_new and committed and source.start is not Named.GROUP:
        warnings.append(
            f"group {job.name} has offsets, but there is no checkpoint {job.checkpoint}: the job starts at "
            f'{job.start}, not where it stopped; source.start = "group" continues there'
        )
    transaction = _transaction(sink, to_admin)
    warnings += _open_transaction(transaction)
    return Survey(
        cluster_id=cluster.cluster_id,
        broker_count=len(cluster.brokers),
        partition_counts=counts,
        checkpoint=checkpoint,
        start=start,
        unread_count=sum(max(0, ends[key] - start[key]) for key in partitions),
        committed=committed,
        creates=tuple(_created(job, sink, is_new, transaction is not None, to_admin)),
        warnings=tuple(warnings),
        problems=tuple(problems),
        changes=found.changes,
        misfit=misfit,
    )


def _standing(job: Job, cluster_id: str, plan: PlanFacts | None) -> tuple[JobStanding, str | None]:
    """The checkpoint, and why it cannot be read if so."""
    try:
        return standing(job, record_of(job, cluster_id=cluster_id, plan=plan)), None
    except CheckpointError as error:
        return JobStanding(checkpoint=None, record=None), str(error)


def _behind(found: JobStanding, admin: Admin) -> str | None:
    """Why the checkpoint knows less than the sink, if so."""
    was = {} if found.record is None else found.record.settings
    if found.checkpoint is None or was.get("delivery") != "exactly-once":
        return None
    decisions = decode_decisions(admin.list_group_offsets(sink_group(str(was["name"]))))
    last = last_batch(decisions, found.checkpoint.query_id)
    if last <= found.checkpoint.batch_id:
        return None
    return (
        f"batch {last} is written, and the checkpoint ends with batch {found.checkpoint.batch_id}: it was "
        "put back to an earlier state"
    )


def _counts(job: Job, from_admin: Admin, to_admin: Admin) -> dict[str, int | None]:
    targets = (job.target, *([job.dead_letters] if job.dead_letters else []))
    return _described(from_admin, job.topics) | _described(to_admin, targets)


def _described(admin: Admin, names: tuple[str, ...]) -> dict[str, int | None]:
    results = admin.describe_topics(names, raise_errors=False)
    found: dict[str, int | None] = {}
    for name in names:
        error = results.errors.get(name)
        if error is None:
            found[name] = len(results[name].partitions)
        elif isinstance(error, BrokerError) and error.error_code in _UNKNOWN:
            found[name] = None
        else:
            raise error
    return found


def _without_schemas(source: SourceOptions) -> list[str]:
    """Why the registry does not tell the schemas of the values, if so."""
    if source.schemas is None:
        return []
    try:
        read_schemas(source.schemas, source.subscription.names)
    except SchemaRegistryError as error:
        return [str(error)]
    return []


def _missing(job: Job, counts: Mapping[str, int | None]) -> list[str]:
    return [
        f"topic {name} does not exist: create it first, as with klamm topics create {name} -b {job.bootstrap}"
        for name, count in counts.items()
        if count is None
    ]


def lost_offsets(start: Positions, firsts: Positions, ends: Positions) -> list[str]:
    """A line for each partition in which the job cannot go on where it is."""
    return [
        f"{key}: the checkpoint continues at offset {offset}, and the log has offsets {firsts[key]} to "
        f"{ends[key] - 1}: records were deleted, or the topic was created again"
        for key, offset in sorted(start.items())
        if not firsts[key] <= offset <= ends[key]
    ]


def _occupied(job: Job, admin: Admin) -> list[str]:
    """A group with members takes no offsets from a query."""
    described = admin.describe_groups([job.name], raise_errors=False).successes.get(job.name)
    if described is None or not described.members:
        return []
    return [
        f"group {job.name} has {len(described.members)} member(s): consumers use it, and the job could not "
        "commit its progress; choose another name"
    ]


def _open_transaction(transaction: TransactionDescription | None) -> list[str]:
    if transaction is None or transaction.state != "Ongoing":
        return []
    return [
        f"transactional id {transaction.transactional_id} has an open transaction: a run of the job may be "
        "active, and starting another one would end it"
    ]


def _transaction(sink: SinkOptions, admin: Admin) -> TransactionDescription | None:
    if sink.transactional_id is None:
        return None
    used_id = driver_id(sink.transactional_id) if sink.is_per_task else sink.transactional_id
    return admin.describe_transactions([used_id], raise_errors=False).successes.get(used_id)


def _created(job: Job, sink: SinkOptions, is_first: bool, is_id_known: bool, admin: Admin) -> list[str]:
    """What a run makes that is not there yet."""
    found = [f"checkpoint {job.checkpoint}"] if is_first else []
    groups = [job.name]
    if sink.transactional_id is not None:
        groups.append(sink_group(sink.transactional_id))
        if not is_id_known:
            found.append(f"transactional id {sink.transactional_id}")
    existing = {item.group_id for item in admin.list_groups()}
    return found + [f"group {name}" for name in groups if name not in existing]
