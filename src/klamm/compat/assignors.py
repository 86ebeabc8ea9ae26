"""The assignors of kafka-python and aiokafka, by their classes."""

from __future__ import annotations

from typing import Any, ClassVar


class AbstractPartitionAssignor:
    """The base of their assignors. klamm's client runs its own: a class of a program's is refused."""

    name: ClassVar[str] = ""

    def __init_subclass__(cls, *, is_known: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not is_known:
            raise TypeError(
                f"{cls.__name__}: klamm's client does not run assignors of this base; write one of klamm's "
                "(docs/assignors.md) and give it in partition_assignment_strategy"
            )


class RangePartitionAssignor(AbstractPartitionAssignor, is_known=True):
    """`range`."""

    name = "range"


class RoundRobinPartitionAssignor(AbstractPartitionAssignor, is_known=True):
    """`roundrobin`."""

    name = "roundrobin"


class StickyPartitionAssignor(AbstractPartitionAssignor, is_known=True):
    """`sticky`."""

    name = "sticky"


class CooperativeStickyAssignor(AbstractPartitionAssignor, is_known=True):
    """`cooperative-sticky`."""

    name = "cooperative-sticky"
