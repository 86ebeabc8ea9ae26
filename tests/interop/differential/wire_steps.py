"""Frames that are not quite requests: other versions, cut bodies, flipped bits, tags that nobody knows."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from interop.differential import admin_steps, data_steps
from interop.differential.data_steps import any_version
from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.schema import is_flexible

_HEADER_BYTES: Final = 4 + 2 + 2 + 4  # size, key, version, correlation id: the client id comes next
# Requests that change nothing, whatever becomes of them.
_READ_ONLY: Final[tuple[Callable[[World], Step], ...]] = (
    admin_steps.metadata,
    admin_steps.describe_cluster,
    admin_steps.describe_topic_partitions,
    data_steps.list_offsets,
    data_steps.offset_for_leader_epoch,
    data_steps.describe_producers,
)


def resized(frame: bytes) -> bytes:
    """The frame with its true size in front."""
    return struct.pack(">i", len(frame) - 4) + frame[4:]


def api_versions(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.API_VERSIONS)
    names = ("klamm", "a", "a-b.c", "", "-a", "a-", "a b", "ü", "librdkafka", "x" * 300)
    request = ApiVersionsRequest(random.choice(names), random.choice(("1.0", "", "v", "1_0", "1.")))
    return Step(ApiKey.API_VERSIONS, version, request, str(request)[:100])


def unserved(world: World) -> Step:
    """An API or a version that neither broker serves."""
    random = world.random
    step = random.choice(_READ_ONLY)(world)
    key, version = random.choice(
        (
            (int(step.api_key), 99),
            (int(step.api_key), -1),
            (int(ApiKey.API_VERSIONS), 5),
            (int(ApiKey.API_VERSIONS), 99),
            (int(ApiKey.API_VERSIONS), -1),
            (int(ApiKey.PRODUCE), 2),
            (int(ApiKey.FETCH), 3),
            (999, 0),
            (-1, 0),
            (4, 0),
        )
    )
    # The header of a version that nobody knows has tags.
    has_tags = is_flexible(step.api_key, step.version)
    place = _HEADER_BYTES + 2 + len("differential")

    def change(frame: bytes) -> bytes:
        body = frame[place:] if has_tags else b"\0" + frame[place:]
        return resized(frame[:4] + struct.pack(">hh", key, version) + frame[8:place] + body)

    return Step(step.api_key, step.version, step.request, f"as {key} {version}", frame_change=change)


def changed_frame(world: World) -> Step:
    """A request that changes nothing, with something done to its bytes."""
    random = world.random
    step = random.choice(_READ_ONLY)(world)
    while step.changes_cluster:
        step = random.choice(_READ_ONLY)(world)
    kind = random.choice(("cut", "longer", "flipped", "client id", "size", "tag"))
    if kind == "flipped" and step.api_key is ApiKey.METADATA:
        kind = "cut"  # another name, or leave to create it, would be a change after all
    change = changing(kind, random.getrandbits(32), is_flexible(step.api_key, step.version))
    return Step(step.api_key, step.version, step.request, kind, frame_change=change)


def changing(kind: str, seed: int, has_tags: bool) -> Callable[[bytes], bytes]:
    """What to do to a frame."""
    place = _HEADER_BYTES + 2 + len("differential")

    def change(frame: bytes) -> bytes:
        match kind:
            case "cut":
                return resized(frame[: 12 + seed % (len(frame) - 12)])
            case "longer":
                return resized(frame + bytes(seed % 20))
            case "flipped" if len(frame) > place:
                at = place + seed % (len(frame) - place)
                return frame[:at] + bytes([frame[at] ^ 1 << (seed >> 16) % 8]) + frame[at + 1 :]
            case "client id":
                client_id = (b"\xff\xff", b"\0\0", b"\0\4abcd", b"\xff\xfe", b"\x7f\xffx")[seed % 5]
                return resized(frame[:_HEADER_BYTES] + client_id + frame[place:])
            case "size":
                size = (0, 7, -1, -(2**31), 2**31 - 1, 104_857_601)[seed % 6]
                return struct.pack(">i", size) + frame[4:]
            case _ if has_tags and frame[-1] == 0:
                return resized(frame[:-1] + b"\2\x70\1x\x71\0")
            case _:
                return frame

    return change
