"""The quotas that apply to a client: those that are set, by entity, and their order of precedence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from klamm.broker.cluster.image import ClusterImage
from klamm.storage.cluster import ConfigResourceType

STORED_AS: Final = ConfigResourceType.QUOTA
USER: Final = "user"
CLIENT_ID: Final = "client-id"
PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
MUTATION_RATE: Final = "controller_mutation_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
IP: Final = "ip"
CONNECTION_RATE: Final = "connection_creation_rate"
_DEFAULT: Final = None  # the name of an entity that stands for all others of its type


class Entity(NamedTuple):
    """What a quota is about: a user, a client id, both, or an address; a name that is None is the default."""

    parts: tuple[tuple[str, str | None], ...]  # type and name, sorted by type

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Entity:
        return cls(tuple(sorted(parts.items())))

    @property
    def key(self) -> str:
        """The name of its configuration. JSON escapes what a database does not take."""
        return json.dumps(dict(self.parts))

    @classmethod
    def from_key(cls, key: str) -> Entity:
        return cls.of(json.loads(key))


class Applied(NamedTuple):
    """The quota of a client, and who shares it."""

    limit: float
    shared_by: tuple[str, ...]  # the kind of bucket, and the names in it


class QuotaTable:
    """All quotas of the cluster, as this broker has applied them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._limits: dict[tuple[str, Entity], float] = {}
        self.read()

    def __bool__(self) -> bool:
        """Whether there is any quota of requests."""
        return any(key != CONNECTION_RATE for key, _ in self._limits)

    def read(self) -> None:
        """The image has other quotas now."""
        self._limits = {
            (key, entity): value for entity, values in self.entities() for key, value in values.items()
        }

    @property
    def has_connection_rates(self) -> bool:
        return any(key == CONNECTION_RATE for key, _ in self._limits)

    def connection_rate(self, address: str) -> float | None:
        """How many connections an address may open in a second; None if there is no limit."""
        own = self._limits.get((CONNECTION_RATE, Entity.of({IP: address})))
        return self._limits.get((CONNECTION_RATE, Entity.of({IP: _DEFAULT}))) if own is None else own

    def entities(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        """Everything that is set."""
        for name in self._image.configured(STORED_AS):
            stored = self._image.configs(STORED_AS, name)
            yield Entity.from_key(name), {key: float(value) for key, value in stored.items()}

    def find(self, key: str, user: str, client_id: str) -> Applied | None:
        """The first of Kafka's eight levels that is set; None if there is no limit."""
        both = ("user, client", user, client_id)
        of_user, of_client = ("user", user), ("client", client_id)
        for parts, shared_by in (
            ({USER: user, CLIENT_ID: client_id}, both),
            ({USER: user, CLIENT_ID: _DEFAULT}, both),
            ({USER: user}, of_user),
            ({USER: _DEFAULT, CLIENT_ID: client_id}, both),
            ({USER: _DEFAULT, CLIENT_ID: _DEFAULT}, both),
            ({USER: _DEFAULT}, of_user),
            ({CLIENT_ID: client_id}, of_client),
            ({CLIENT_ID: _DEFAULT}, of_client),
        ):
            limit = self._limits.get((key, Entity.of(parts)))
            if limit is not None:
                return Applied(limit, shared_by)
        return None
