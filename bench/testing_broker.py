"""What does a broker in a test cost: to start and stop, and to let an hour pass with 100 members in a group?

Run with: python bench/testing_broker.py

Times are CPU time of the process, all threads: median and best of the runs. The members are clients of
another library: connections that joined and send no heartbeats. In one row their sessions are longer than
the hour, in the other each of them ends on the way. A loop of plain Python is measured beside it, to compare
machines, and a machine that is busy with one that is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

import klamm
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.testing import Broker, WireClient, wait_until

_RUNS = 15
_MEMBERS = 100
_HOUR_MS = 3_600_000
_LOOP = 2_000_000
_UNKNOWN_MEMBER = ErrorCode.unknown_member_id


def cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def plain_loop() -> None:
    """Does not change with klamm."""
    total = 0
    for number in range(_LOOP):
        total += number & 7


def start_and_stop(make: Callable[[], klamm.Broker]) -> Callable[[], float]:
    def run() -> float:
        def cycle() -> None:
            with make():
                pass

        return cpu_ms(cycle)

    return run


def an_hour(session_ms: int) -> Callable[[], float]:
    """The CPU time of an hour, with the members in the group at its start."""

    def run() -> float:
        with ExitStack() as stack:
            broker = stack.enter_context(
                Broker(group_max_session_timeout_ms=2 * _HOUR_MS, group_max_size=_MEMBERS)
            )
            stack.enter_context(broker.clock.frozen())
            clients = [
                stack.enter_context(WireClient(broker.bootstrap, client_id=f"m{number}"))
                for number in range(_MEMBERS)
            ]
            _join(broker, clients, session_ms)
            assert len(broker.group("g").members) == _MEMBERS
            spent_ms = cpu_ms(lambda: broker.clock.advance("1h"))
            left = len(broker.group("g").members)
            assert left == (_MEMBERS if session_ms > _HOUR_MS else 0), left
            return spent_ms

    return run


def _join(broker: Broker, clients: list[WireClient], session_ms: int) -> None:
    def request(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )

    first, others = clients[0], clients[1:]
    wanted = FindCoordinatorRequest(key="g")
    wait_until(lambda: first.ask("FindCoordinator", 1, wanted).error_code, equals=0)
    wait_until(lambda: first.ask("Heartbeat", 3, HeartbeatRequest("g")).error_code, equals=_UNKNOWN_MEMBER)
    # Up to version 3 nobody needs an id to join. The first is alone in a generation, until it comes back.
    own_id = first.ask("JoinGroup", 3, request("")).member_id
    for client in others:
        client.send("JoinGroup", 3, request(""))
    broker.wait_until(lambda: len(broker.group("g").members), equals=_MEMBERS, real_time=True)
    first.send("JoinGroup", 3, request(own_id))
    answers = [client.receive("JoinGroup", 3)[1] for client in clients]
    ids = [answer.member_id for answer in answers]
    for client, answer in zip(clients, answers, strict=True):
        given = [SyncGroupRequestAssignment(each, b"") for each in ids] if answer.members else []
        client.send(
            "SyncGroup", 3, SyncGroupRequest("g", answer.generation_id, answer.member_id, assignments=given)
        )
    for client in clients:
        client.receive("SyncGroup", 3)


ROWS: dict[str, Callable[[], float]] = {
    f"plain loop of {_LOOP:,} turns": lambda: cpu_ms(plain_loop),
    "start and stop of klamm.Broker": start_and_stop(klamm.Broker),
    "start and stop of klamm.testing.Broker": start_and_stop(Broker),
    f"an hour with {_MEMBERS} members that stay": an_hour(2 * _HOUR_MS),
    f"an hour with {_MEMBERS} members whose sessions end": an_hour(45_000),
}


def main() -> None:
    for run in ROWS.values():
        run()  # imports, and what is made at first use
    found: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(_RUNS):
        for name, run in ROWS.items():
            found[name].append(run())
    for name, times_ms in found.items():
        print(f"{name:45} median {median(times_ms):7.1f} ms   best {min(times_ms):7.1f} ms")


if __name__ == "__main__":
    main()
