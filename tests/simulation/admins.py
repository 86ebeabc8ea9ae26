"""Administrators: make topics and take them away, delete records, move offsets, look around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from simulation.clients import Client

if TYPE_CHECKING:
    from simulation.world import World


async def create_topics(world: World, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
    """Topics by name: partitions and configs."""
    admin = Client(world, "founder")
    wanted = [
        CreatableTopic(name, partitions, 1, configs=[CreatableTopicConfig(*each) for each in configs.items()])
        for name, (partitions, configs) in topics.items()
    ]
    response = await admin.insist(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(wanted, 10_000))
    assert not any(topic.error_code for topic in response.topics), response
    admin.disconnect()
