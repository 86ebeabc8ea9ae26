"""The options of both ends of a job: its source and its sink."""

from __future__ import annotations

from klamm.spark.pipe.job import Job


def reading(job: Job) -> dict[str, str]:
    """The options of the source."""
    options = {
        **_clients(job),
        "subscribe": ",".join(job.topics),
        "startingOffsets": job.start,
        "kafka.group.id": job.name,
        "kafka.isolation.level": "read_committed",
        "commitOffsets": "transaction" if job.is_exactly_once else "progress",
    }
    if job.max_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(job.max_per_batch)
    if job.has_schemas:
        assert job.schema_registry is not None
        options |= {"schemaRegistry": job.schema_registry, "valueColumns": "columns", "badValues": "keep"}
        if job.schema is not None:
            options["valueSchema"] = job.schema
    return {**options, **job.source_options}


def writing(job: Job) -> dict[str, str]:
    """The options of the sink."""
    options = {**_clients(job), "checkpointLocation": job.checkpoint}
    if job.is_exactly_once:
        options |= {"delivery": "exactly-once", "transactionalId": job.name, "commitGroup": job.name}
    return {**options, **job.sink_options}


def _clients(job: Job) -> dict[str, str]:
    """What the clients of both ends have in common: the cluster, and how to log in to it."""
    named = {f"kafka.{name}": value for name, value in job.client.items()}
    return {**named, "kafka.bootstrap.servers": job.bootstrap}
