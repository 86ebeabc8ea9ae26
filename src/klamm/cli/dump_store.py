"""`klamm dump --store`: partitions of a PostgreSQL database, as text or as segment files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli.dump_files import DumpError, Fact, batch_facts
from klamm.clock import SystemClock
from klamm.extras import install_command
from klamm.protocol.errors import DecodeError
from klamm.records.batch import crc_is_valid, iter_headers
from klamm.storage.engines.segments.names import parse_partition_directory
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.storage.engines.postgresql.export import DatabaseLogs, StoredLog


def stored_facts(url: str, name: str, *, with_records: bool) -> Iterator[Fact]:
    """The batches of a partition. Raises DumpError."""
    with _opened(url, name) as (reader, log):
        yield from batch_facts(_found(reader, log), log.topic, with_records=with_records)


def stored_partitions(url: str) -> Iterator[Fact]:
    """The partitions of a database. Raises DumpError."""
    with _reading(url, "the partitions") as reader:
        for topic, partition, start, end, size_bytes in reader.names():
            yield {
                "type": "partition",
                "partition": f"{topic}-{partition}",
                "start_offset": start,
                "end_offset": end,
                "size_bytes": size_bytes,
            }


def exported(url: str, name: str, folder: Path) -> Path:
    """Write a partition as segment files into a folder; where they are. Raises DumpError."""
    with _opened(url, name) as (reader, log):
        from klamm.storage.engines.postgresql.export import export_segments  # noqa: PLC0415 - as below

        return export_segments(reader, log, folder, SystemClock())


def _found(reader: DatabaseLogs, log: StoredLog) -> Iterator[FoundBatch]:
    position = 0
    for batch in reader.batches(log):
        _, header = next(iter_headers(batch))
        if not crc_is_valid(batch, 0, header):
            raise DumpError(f"{log.topic}-{log.partition}: checksum mismatch at offset {header.base_offset}")
        yield FoundBatch(position, header, batch, 0)
        position += len(batch)


@contextmanager
def _opened(url: str, name: str) -> Iterator[tuple[DatabaseLogs, StoredLog]]:
    place = parse_partition_directory(name)
    if place is None:
        raise DumpError(f"{name} is not a partition: expected TOPIC-PARTITION, as in orders-0")
    with _reading(url, name) as reader:
        yield reader, reader.find(*place)


@contextmanager
def _reading(url: str, name: str) -> Iterator[DatabaseLogs]:
    try:
        # Imported here: only klamm[postgresql] has psycopg.
        from klamm.storage.engines.postgresql.connection import StoreUnavailableError  # noqa: PLC0415
        from klamm.storage.engines.postgresql.export import open_reader  # noqa: PLC0415
    except ImportError as error:
        raise DumpError(f"--store needs psycopg ({error}): {install_command('postgresql')}") from error
    try:
        with open_reader(url) as reader:
            yield reader
    except StoreUnavailableError as error:
        raise DumpError(str(error)) from error
    except FileExistsError as error:
        raise DumpError(f"{error.filename} exists: name another folder, or delete it") from error
    except OSError as error:
        raise DumpError(f"cannot write {error.filename or name}: {error.strerror}") from error
    except (LogError, DecodeError) as error:
        raise DumpError(f"{name}: {error}") from error
