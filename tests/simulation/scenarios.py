"""Who lives in a simulated world, and what may go wrong there."""

from __future__ import annotations

from typing import Final

from simulation.admins import Bookkeeper, Janitor, create_topics
from simulation.consumers import Consumer
from simulation.faults import Faults
from simulation.members import Member
from simulation.producers import CarelessProducer, IdempotentProducer
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
