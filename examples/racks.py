"""Two brokers in two racks, and assignors that look at racks, or at nothing.

Run it: `python examples/racks.py`. Both brokers are in this process and in memory. `rack-leader` gives
each partition to a member in the rack of its leader; `random` is what no group should use, and makes a
good contrast.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import klamm
from klamm.assignors.random_assignor import RandomAssignor

PARTITIONS = 4
STRATEGIES: dict[str, str | RandomAssignor] = {"rack-leader": "rack-leader", "random": RandomAssignor(seed=3)}
RACKS = {"anna": "east", "bert": "west"}


def assigned(bootstrap: str, assignor: str) -> dict[str, set[klamm.TopicPartition]]:
    """What two members, one in each rack, get from an assignor."""
    members = {
        name: klamm.Consumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id=f"readers-{assignor}",
            client_id=name,
            client_rack=rack,
            heartbeat_interval_ms=50,
            partition_assignment_strategy=STRATEGIES[assignor],
        )
        for name, rack in RACKS.items()
    }
    owned: dict[str, set[klamm.TopicPartition]] = {}
    while (
        sum(map(len, owned.values())) < PARTITIONS
        or len({_generation(each) for each in members.values()}) > 1
    ):
        for name, member in members.items():
            member.poll(0.05)
            owned[name] = member.assignment()
    for member in members.values():
        member.close()
    return owned


def _generation(member: klamm.Consumer) -> int:
    return member.health().generation_id


def main() -> None:
    # Members that start together are in one generation: the first rebalance waits for both.
    settings: dict[str, str | int] = {"broker.rack": "east,west", "group.initial.rebalance.delay.ms": 300}
    with klamm.Broker(brokers=2, settings=settings) as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([klamm.NewTopic("orders", PARTITIONS)]).unwrap()
            rack_of = {each.broker_id: each.rack for each in admin.describe_cluster().brokers}
            described = admin.describe_topics(["orders"]).unwrap()["orders"]
        racks = {each.partition: rack_of[each.leader_id] for each in described.partitions}
        for rack in RACKS.values():
            print(f"{list(racks.values()).count(rack)} of {PARTITIONS} leaders are in {rack}")
        for assignor in ("rack-leader", "random"):
            owned = assigned(broker.bootstrap, assignor)
            near = sum(racks[each.partition] == RACKS[name] for name, held in owned.items() for each in held)
            print(f"{assignor}: {near} of {PARTITIONS} partitions are read in the rack of their leader")


if __name__ == "__main__":
    main()
