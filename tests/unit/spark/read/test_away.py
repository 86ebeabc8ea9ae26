"""A broker that is away while a query reads, on time that the test moves."""

from __future__ import annotations

from klamm.errors import KlammError
from unit.spark.moving import MINUTE_MS, Host, Time, in_background, pass_slowly, pass_until_failed
from unit.spark.world import Query, World, rows_of

ROWS = [b"%d" % number for number in range(10)]


def test_a_broker_that_is_away_for_a_minute_delays_a_task(host: Host, time: Time) -> None:
    world = World(host.bootstrap)
    topic = world.topic()
    world.fill(topic, ROWS)
    reader = world.batch(subscribe=topic)
    tasks = reader.partitions()
    host.stop()
    future = in_background(lambda: [row["value"] for row in rows_of(reader, tasks)])
    pass_slowly(time, MINUTE_MS, future)
    assert not future.done(), future.exception()
    host.start()
    assert future.result(60) == ROWS
    world.close()


def test_a_stream_whose_broker_was_away_reads_on(host: Host, time: Time) -> None:
    world = World(host.bootstrap)
    topic = world.topic()
    world.fill(topic, ROWS[:5])
    query = Query(world.stream(subscribe=topic, startingOffsets="earliest"))
    assert [row["value"] for row in query.next() or ()] == ROWS[:5]
    host.stop()
    future = in_background(query.next)
    error = pass_until_failed(time, future)
    assert isinstance(error, KlammError)
    assert host.bootstrap in str(error), error
    # The query is started again from its checkpoint.
    host.start()
    world.fill(topic, ROWS[5:])
    again = Query(world.stream(subscribe=topic), query.at)
    assert [row["value"] for row in again.next() or ()] == ROWS[5:]
    world.close()
