"""Who lives in a simulated world, and what may go wrong there."""

from __future__ import annotations

from typing import Final

from simulation.admins import Bookkeeper, Janitor, create_topics
from simulation.consumer_members import ConsumerMember
from simulation.consumers import Consumer
from simulation.faults import Faults
from simulation.members import Member
from simulation.producers import CarelessProducer, IdempotentProducer
from simulation.transactors import Transactor, TwoPhaseProducer
from simulation.workers import READ_COMMITTED, TransactingMember, Worker
from simulation.world import World

FAULTS: Final = Faults(drop=0.01, crash=0.001, torn_write=0.001, io_error=0.001, slow_flush=0.01, stop=0.01)
TOPICS: Final = {
    "orders": (2, {"segment.bytes": "2048", "index.interval.bytes": "100"}),
    "gossip": (1, {"segment.bytes": "4096"}),
}
ORDERS: Final = (("orders", 0), ("orders", 1))
GOSSIP: Final = (("gossip", 0),)


def settle(world: World) -> None:
    """Let everybody move in."""
    world.do(create_topics(world, TOPICS))
    world.add(
        IdempotentProducer(world, "anna", (*ORDERS, *GOSSIP)),
        IdempotentProducer(world, "bert", ORDERS),
        CarelessProducer(world, "cleo", GOSSIP),
        Consumer(world, "dora", (*ORDERS, *GOSSIP)),
        Consumer(world, "emil", (*GOSSIP, *ORDERS)),
        Member(world, "fred", "movers", ("orders", "gossip")),
        Member(world, "gina", "movers", ("orders", "gossip")),
        Member(world, "hugo", "movers", ("orders", "gossip")),
        Member(world, "ilse", "stayers", ("orders",), instance_id="ilse"),
        Member(world, "jens", "stayers", ("orders",), instance_id="jens"),
        Janitor(world, "karl", "scratch", GOSSIP[0]),
        Bookkeeper(world, "lena", "ledger", (*ORDERS, ("scratch", 0))),
    )


TRANSACTION_FAULTS: Final = Faults(
    drop=0.01,
    crash=0.0005,
    torn_write=0.0005,
    io_error=0.0005,
    slow_flush=0.01,
    stop=0.01,
    marker=0.1,
    move=0.1,
)
INPUTS: Final = (("in", 0), ("in", 1))
OUTPUTS: Final = (("out", 0), ("out", 1))
BANK: Final = (("bank", 0), ("bank", 1), ("bank", 2))
TRANSACTION_TOPICS: Final = {
    "in": (2, {"segment.bytes": "2048", "index.interval.bytes": "100"}),
    "jobs": (2, {}),
    "out": (2, {"segment.bytes": "4096"}),
    "bank": (3, {"segment.bytes": "1024", "index.interval.bytes": "100"}),
}


class Clerk(TransactingMember):
    """Works on `jobs`."""

    OUTPUTS = OUTPUTS


def settle_transactions(world: World) -> None:
    """Let those move in who use transactions."""
    world.do(create_topics(world, TRANSACTION_TOPICS))
    world.add(
        IdempotentProducer(world, "anna", (*INPUTS, ("jobs", 0))),
        Transactor(world, "bert", "bert", (*BANK, ("in", 0), ("jobs", 1)), is_v2=True),
        Transactor(world, "cleo", "cleo", (*BANK, ("in", 1)), is_v2=False),
        Transactor(world, "dora", "twins", BANK, is_v2=True),
        Transactor(world, "emil", "twins", BANK, is_v2=True),
        Transactor(world, "fred", "rivals", BANK, is_v2=True),
        Transactor(world, "gina", "rivals", BANK, is_v2=False),
        TwoPhaseProducer(world, "hugo", "vault", BANK),
        Worker(world, "ilse", "worker", "workers", INPUTS, OUTPUTS, is_v2=True, is_last=True),
        Worker(world, "jens", "worker", "workers", INPUTS, OUTPUTS, is_v2=False, is_last=False),
        Clerk(world, "karl", "clerks", ("jobs",)),
        Clerk(world, "lena", "clerks", ("jobs",)),
        Consumer(world, "mona", (*BANK, *INPUTS, *OUTPUTS), READ_COMMITTED),
        Consumer(world, "nils", (*OUTPUTS, *BANK)),
    )


CONSUMER_FAULTS: Final = Faults(
    drop=0.01, crash=0.0007, torn_write=0.0007, io_error=0.0007, slow_flush=0.01, stop=0.01, move=0.05
)
CONSUMED_TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {"orders": (4, {}), "gossip": (2, {})}


def settle_consumers(world: World) -> None:
    """Let those move in whom the coordinator assigns partitions."""
    world.do(create_topics(world, CONSUMED_TOPICS))
    both, one = ("orders", "gossip"), ("orders",)
    world.add(
        IdempotentProducer(world, "anna", (*ORDERS, ("orders", 3), *GOSSIP)),
        ConsumerMember(world, "bert", "movers", both),
        ConsumerMember(world, "cleo", "movers", both),
        ConsumerMember(world, "dora", "movers", one),
        ConsumerMember(world, "emil", "movers", both, regex="ord.*|go(ss)?ip"),
        ConsumerMember(world, "fred", "stayers", one, instance_id="fred"),
        ConsumerMember(world, "gina", "stayers", one, instance_id="gina"),
        ConsumerMember(world, "hugo", "stayers", one),
        Member(world, "ilse", "classics", one),
        Member(world, "jens", "classics", one),
    )
