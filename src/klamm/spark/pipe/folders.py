"""Files of a checkpoint, wherever it is: read, replaced as a whole, moved aside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from klamm.spark.write.decisions import opened, text_of

__all__ = [
    "exists",
    "files_in",
    "has_folder",
    "move",
    "move_aside",
    "remove_folder",
    "replace_text",
    "text_of",
]


def exists(location: str) -> bool:
    """Whether there is a file; False also where the file system cannot be read."""
    return bool(_kind(location) == pafs.FileType.File)


def has_folder(location: str) -> bool:
    """Whether there is a folder; False also where the file system cannot be read."""
    return bool(_kind(location) == pafs.FileType.Directory)


def _kind(location: str) -> Any:
    try:
        system, path = opened(location)
        return system.get_file_info(path).type
    except (OSError, ValueError, pa.ArrowException):
        return pafs.FileType.Unknown


def files_in(location: str) -> list[str]:
    """The names of the files and folders in a folder; none if there is no such folder."""
    system, path = opened(location)
    selected = pafs.FileSelector(path, allow_not_found=True)
    return sorted(item.base_name for item in system.get_file_info(selected))


def replace_text(location: str, text: str) -> None:
    """Write a file that is there as a whole or as it was; Spark's checksum of the former one goes."""
    system, path = opened(location)
    folder, _, name = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    draft = f"{folder}/.{name}.new"
    with system.open_output_stream(draft) as stream:
        stream.write(text.encode())
    checksum = f"{folder}/.{name}.crc"
    if system.get_file_info(checksum).type == pafs.FileType.File:
        system.delete_file(checksum)
    system.move(draft, path)


def move_aside(location: str) -> str:
    """Give a folder another name, and tell it: the first free one of `DIR.1`, `DIR.2` and so on."""
    number = 1
    while _kind(f"{location.rstrip('/')}.{number}") != pafs.FileType.NotFound:
        number += 1
    target = f"{location.rstrip('/')}.{number}"
    move(location, target)
    return target


def move(location: str, target: str) -> None:
    """Give a file or a folder another name, which is free."""
    system, path = opened(location)
    system.move(path, opened(target)[1])


def remove_folder(location: str) -> None:
    """Remove a folder with all that is in it, if there is one."""
    if has_folder(location):
        system, path = opened(location)
        system.delete_dir(path)
