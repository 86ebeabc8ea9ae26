"""Many seeds by hand: `python -m interop.differential KLAMM KAFKA --seeds 0-99`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from interop.differential.cluster_runner import ClusterGroupHistory, ClusterHistory, ClusterTxnHistory
from interop.differential.cluster_sides import SeveralBrokers, SeveralGroupSide, SeveralTxnSide
from interop.differential.consumer_runner import ConsumerHistory, ConsumerSide
from interop.differential.group_runner import GroupHistory
from interop.differential.group_sides import GroupSide
from interop.differential.runner import History
from interop.differential.sides import Side
from interop.differential.txn_runner import TxnHistory
from interop.differential.txn_world import TxnSide

OneSide = TypeVar("OneSide", bound=Side)


def begun(options: argparse.Namespace, seed: int) -> History | GroupHistory | TxnHistory:
    def both(kind: Callable[[str, str], OneSide]) -> tuple[OneSide, OneSide]:
        return kind("klamm", options.ours), kind("Kafka", options.kafkas)

    if options.transactions and options.cluster:
        return ClusterTxnHistory(*both(SeveralTxnSide), seed)
    if options.transactions:
        return TxnHistory(*both(TxnSide), seed)
    if options.groups and options.cluster:
        return ClusterGroupHistory(*both(SeveralGroupSide), seed)
    if options.consumers:
        return ConsumerHistory(*both(ConsumerSide), seed)
    if options.groups or options.bursts:
        return GroupHistory(*both(GroupSide), seed)
    if options.cluster:
        return ClusterHistory(*both(SeveralBrokers), seed)
    return History(*both(Side), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ours", help="address of klamm")
    parser.add_argument("kafkas", help="address of Apache Kafka")
    parser.add_argument("--seeds", default="0-9", help="one, or first-last")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--most", type=int, default=1, help="differences shown per seed")
    parser.add_argument("--groups", action="store_true", help="members of groups in place of data")
    parser.add_argument("--consumers", action="store_true", help="members that speak the consumer protocol")
    parser.add_argument("--bursts", action="store_true", help="many requests about offsets at once")
    parser.add_argument("--transactions", action="store_true", help="transactions in place of data")
    parser.add_argument("--cluster", action="store_true", help="three brokers each, all of them given")
    parser.add_argument("--long", action="store_true", help="show request and answers")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    asked: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    started_at_s, differing = time.monotonic(), 0
    for seed in range(int(first), int(last or first) + 1):
        history = begun(options, seed)
        found = 0
        run = history.run
        if options.bursts and isinstance(history, GroupHistory):
            run = history.run_in_bursts
        for difference in run(options.steps):
            print(difference.at_length() if options.long else difference, flush=True)  # noqa: T201 - a tool
            found += 1
            if found >= options.most:
                break
        differing += bool(found)
        asked += history.asked
        excused += history.excused
    took_s = time.monotonic() - started_at_s
    print(f"{asked.total()} requests of {len(asked)} kinds in {took_s:.0f} s, {differing} seeds differ")  # noqa: T201
    for why, times in excused.most_common():
        print(f"  {times} times: {why}")  # noqa: T201 - a tool


main()
