"""What an interrupted run leaves in a partition's directory: incomplete swaps, temporary files."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import DirectoryEntry, Files, remove_if_there
from klamm.storage.engines.segments.scan import BadBatchError, walk

_logger = logging.getLogger(__name__)


def tidy(files: Files, directory: str) -> Sequence[DirectoryEntry]:
    """Finish or undo interrupted operations; the entries that are left."""
    entries = files.scan(directory)
    if not any(_is_leftover(entry.name) for entry in entries):
        return entries
    by_suffix: dict[str, list[str]] = {}
    for entry in entries:
        for suffix in (
            names.DELETED_SUFFIX,
            names.CLEANED_SUFFIX,
            names.SWAP_SUFFIX,
            names.TEMPORARY_SUFFIX,
        ):
            if entry.name.endswith(suffix):
                by_suffix.setdefault(suffix, []).append(entry.name)
    cleaned = by_suffix.get(names.CLEANED_SUFFIX, [])
    swaps = by_suffix.get(names.SWAP_SUFFIX, [])
    # The cleaner renames the newest first: what is still .cleaned shows which .swap are of its set.
    first_cleaned = min((_offset(name) for name in cleaned), default=None)
    undone = [name for name in swaps if first_cleaned is not None and _offset(name) >= first_cleaned]
    for name in [
        *by_suffix.get(names.DELETED_SUFFIX, []),
        *by_suffix.get(names.TEMPORARY_SUFFIX, []),
        *undone,
        *cleaned,
    ]:
        remove_if_there(files, f"{directory}/{name}")
    _complete_swaps(files, directory, [name for name in swaps if name not in undone])
    files.sync_directory(directory)
    return files.scan(directory)


def has_leftovers(files: Files, directory: str) -> bool:
    """Whether there is something to tidy, which waits for the disk."""
    return files.exists(directory) and any(_is_leftover(entry.name) for entry in files.scan(directory))


def _is_leftover(name: str) -> bool:
    return name.endswith(
        (names.DELETED_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.TEMPORARY_SUFFIX)
    )


def _offset(name: str) -> int:
    parsed = names.parse_offset_name(name)
    return parsed.offset if parsed is not None else -1


def _complete_swaps(files: Files, directory: str, swaps: Sequence[str]) -> None:
    """Remove what each swapped segment replaces, then rename it."""
    swapped = [name for name in swaps if name.endswith(names.LOG_SUFFIX + names.SWAP_SUFFIX)]
    for name in swapped:
        base_offset = _offset(name)
        next_offset = _next_offset(files, f"{directory}/{name}", base_offset)
        _logger.info("%s: completing the replacement of %s", directory, name)
        for entry in files.scan(directory):
            parsed = names.parse_offset_name(entry.name)
            if (
                parsed is not None
                and parsed.suffix in names.SEGMENT_SUFFIXES
                and (base_offset <= parsed.offset < next_offset or parsed.offset == base_offset)
            ):
                remove_if_there(files, f"{directory}/{entry.name}")
    # Indexes first: a swap is known by its log, so that one goes last.
    for name in sorted(swaps, key=lambda name: name in swapped):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(names.SWAP_SUFFIX)}")


def _next_offset(files: Files, path: str, base_offset: int) -> int:
    next_offset = base_offset
    try:
        for batch in walk(files, path):
            next_offset = batch.header.next_offset
    except BadBatchError as error:
        # It was durable before it got this name; recovery checks what is left of it.
        _logger.warning("%s", error)
    return next_offset
