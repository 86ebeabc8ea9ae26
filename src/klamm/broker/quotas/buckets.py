"""What clients have used, by who shares it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

MOST_BUCKETS: Final = 10_000  # of each kind; those that were unused for longest are forgotten
_Bucket = TypeVar("_Bucket")


class Buckets(Generic[_Bucket]):
    """A bounded number of them; the least recently used is forgotten first."""

    def __init__(self) -> None:
        self._by_owner: OrderedDict[tuple[str, ...], _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_owner)

    def get(self, owner: tuple[str, ...]) -> _Bucket | None:
        bucket = self._by_owner.get(owner)
        if bucket is not None:
            self._by_owner.move_to_end(owner)
        return bucket

    def put(self, owner: tuple[str, ...], bucket: _Bucket) -> _Bucket:
        if len(self._by_owner) >= MOST_BUCKETS:
            self._by_owner.popitem(last=False)
        self._by_owner[owner] = bucket
        return bucket
