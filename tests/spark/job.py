"""A streaming job as a user would start it: one topic copied to another, with its progress as a group's.

It runs until its standard input ends, or until it is killed, which is what it is for.
"""

from __future__ import annotations

import json
import sys

import klamm.spark


def main(bootstrap: str, origin: str, target: str, group: str, checkpoint: str) -> None:
    spark = klamm.spark.session("klamm-job", master="local[2]", quick=True, log_level="OFF")
    broker = {"kafka.bootstrap.servers": bootstrap}
    query = (
        spark.readStream.format("klamm")
        .options(**broker, subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger="50")
        .options(**{"kafka.group.id": group, "commitOffsets": "progress"})
        .load()
        .selectExpr("key", "value")
        .writeStream.format("klamm")
        .options(**broker, topic=target, checkpointLocation=checkpoint)
        .start()
    )
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    sys.stdout.write(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid()}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
