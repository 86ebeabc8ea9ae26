"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import klamm

SUITE = """
import asyncio
import pytest

@pytest.mark.klamm(num_partitions=3)
def test_settings(klamm_broker, klamm_topic, klamm_producer):
    assert len(klamm_producer.partitions_for(klamm_topic)) == 3

@pytest.mark.parametrize("number", range(2))
def test_each_test_has_its_own(klamm_topic, klamm_producer, klamm_consumer, number):
    klamm_producer.send(klamm_topic, str(number)).result()
    assert [record.value for record in klamm_consumer.consume(1, timeout=30)] == [str(number).encode()]

def test_secured(klamm_secure_broker):
    assert klamm_secure_broker.client("alice")["security.protocol"] == "SASL_SSL"
    klamm_secure_broker.revoke("alice")

def test_clock(klamm_broker):
    klamm_broker.clock.advance("1h")

seen = set()

@pytest.mark.parametrize("number", range(2))
def test_session(klamm_session_broker, klamm_topic, klamm_producer, klamm_consumer, number):
    seen.add(klamm_session_broker.bootstrap)
    assert len(seen) == 1
    klamm_producer.send(klamm_topic, str(number)).result()
    assert len(klamm_consumer.consume(1, timeout=30)) == 1

def test_asyncio(klamm_aio, klamm_topic):
    async def both():
        async with klamm_aio.producer() as producer, klamm_aio.consumer() as consumer:
            await producer.send(klamm_topic, b"x")
            async for record in consumer:
                return record.value

    assert asyncio.run(both()) == b"x"

def test_looks(klamm_broker, klamm_topic, klamm_group, klamm_producer, klamm_consumer):
    klamm_producer.send(klamm_topic, "x").result()
    assert [record.value for record in klamm_broker.records(klamm_topic)] == [b"x"]
    klamm_consumer.consume(1, timeout=30)
    klamm_consumer.commit()
    assert klamm_broker.wait_until(lambda: klamm_broker.group(klamm_group).committed, real_time=True)
    klamm_broker.wait_until(lambda: klamm_broker.topics().get(klamm_topic), equals=1)
    assert klamm_broker.group(klamm_group).total_lag == 0
"""

FAILING = """
def test_it_fails(klamm_broker, klamm_topic, klamm_producer, klamm_consumer):
    klamm_producer.send(klamm_topic, "x").result()
    klamm_broker.faults.fail("Heartbeat", error="NOT_COORDINATOR", times=1)
    assert len(klamm_consumer.consume(1, timeout=30)) == 2
"""


FAILING_LATER = """
def test_the_first(klamm_session_broker, klamm_topic, klamm_producer, klamm_consumer):
    klamm_producer.send(klamm_topic, "x").result()
    assert len(klamm_consumer.consume(1, timeout=30)) == 1

def test_the_second(klamm_session_broker, klamm_topic, klamm_producer, klamm_consumer):
    klamm_producer.send(klamm_topic, "x").result()
    assert len(klamm_consumer.consume(1, timeout=30)) == 2
"""


SHARED = """
import pytest

pytestmark = pytest.mark.klamm(num_partitions=3)
seen = set()

@pytest.fixture(scope="session")
def klamm_session_settings():
    return {"num_partitions": 5}

@pytest.mark.parametrize("number", range(2))
def test_module(klamm_module_broker, klamm_bootstrap, klamm_topic, klamm_producer, number):
    seen.add(klamm_bootstrap)
    assert seen == {klamm_module_broker.bootstrap}
    assert len(klamm_producer.partitions_for("created-by-use")) == 3

def test_session(klamm_session_broker, klamm_producer):
    assert klamm_session_broker.bootstrap not in seen
    assert len(klamm_producer.partitions_for("created-by-use")) == 5

def test_container(klamm_broker, klamm_container_bootstrap):
    assert klamm_container_bootstrap.startswith("host.docker.internal:")
    assert klamm_container_bootstrap == klamm_broker.container_bootstrap
"""

SCRIPTED = """
import logging
from klamm.testing import ScriptedGroup

def test_it_fails():
    mine = ScriptedGroup({"orders": 2})
    mine.join("a", "b")
    mine.settle()
    mine.die("a")
    mine.settle()
    assert len(mine.assignment["b"]) == 7

def test_it_does_not_settle():
    mine = ScriptedGroup({"orders": 2})
    mine.join("a", "b")
    mine.settle()
    mine.die("a")
    mine.settle("1s")
"""

VAIN = """
def test_it_waits_in_vain(klamm_broker):
    klamm_broker.wait_until(lambda: klamm_broker.group("nobody").total_lag == 0, "20ms")
"""


def pytest_in(folder: Path, suite: str, *options: str, **environment: str) -> str:
    (folder / "test_suite.py").write_text(suite)
    plugins = ("-p", "klamm.testing.plugin", "-p", "no:randomly", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_fixtures_work_under_xdist(tmp_path: Path) -> None:
    assert "9 passed" in pytest_in(tmp_path, SUITE, "-n", "2", "-W", "error")


def test_the_same_suite_runs_against_another_cluster(tmp_path: Path) -> None:
    with klamm.Broker(num_partitions=3) as other:
        output = pytest_in(tmp_path, SUITE, KLAMM_TEST_BOOTSTRAP=other.bootstrap)
        with klamm.Admin(bootstrap_servers=other.bootstrap) as admin:
            left = [*admin.list_topics(), *admin.list_groups()]
    assert "7 passed, 2 skipped" in output, output
    assert left == []


@pytest.mark.parametrize(
    "options",
    [(), ("-p", "no:logging"), ("--log-level", "WARNING")],
    ids=["captured by pytest", "not captured", "partly captured"],
)
def test_a_failed_test_shows_the_story_and_the_log_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    output = pytest_in(tmp_path, FAILING, *options)
    assert "klamm_broker: story" in output, output
    assert "test_it_fails" in output.partition("klamm_broker: story")[2]  # the group's name, in its story
    assert "klamm_broker: log" in output or not options
    created = [line for line in output.splitlines() if "test_it_fails" in line and "created with" in line]
    assert len(created) == 1, output


def test_the_report_leaves_out_what_tests_before_did_with_the_broker_of_the_session(tmp_path: Path) -> None:
    output = pytest_in(tmp_path, FAILING_LATER, "-p", "no:logging")
    assert "1 failed, 1 passed" in output
    told = output.partition("klamm_session_broker: story")[2]
    assert "klamm_session_broker: log" in told, output
    assert "test_the_second" in told
    assert "test_the_first" not in told


def test_brokers_of_a_module_and_of_the_session_have_their_settings(tmp_path: Path) -> None:
    assert "4 passed" in pytest_in(tmp_path, SHARED)


def test_a_failed_test_shows_the_story_of_its_scripted_groups_once(tmp_path: Path) -> None:
    output = pytest_in(tmp_path, SCRIPTED, "-o", "log_cli=true", "-o", "log_cli_level=INFO")
    assert "2 failed" in output
    assert output.count("mine: story") == 1, output
    assert output.count("generation 2 by b") == 1
    # What klamm logs of planned deaths is with the story, and not printed meanwhile
    assert "klamm." not in output.partition("= FAILURES =")[0].partition("live log")[2], output


def test_a_traceback_ends_at_the_line_of_the_test(tmp_path: Path) -> None:
    output = pytest_in(tmp_path, VAIN)
    failure = output.partition("= FAILURES =")[2].partition("klamm_broker: log")[0]
    assert "> " in failure, output
    assert (
        "AssertionError: not so after 20ms: the lag of group nobody is not known: there is no such" in failure
    )
    assert "src/klamm" not in failure.replace("klamm.broker", ""), failure
    assert len(re.findall(r"^\S+\.py:\d+", failure, re.MULTILINE)) == 1, failure


def test_the_plugin_imports_nothing_of_klamm_before_it_is_used(tmp_path: Path) -> None:
    script = (
        "import sys, klamm.testing.plugin\n"
        "loaded = {name for name in sys.modules if name.startswith('klamm')}\n"
        "expected = {'klamm', 'klamm.version', 'klamm.testing', 'klamm.testing.plugin'}\n"
        "assert loaded == expected, loaded - expected\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_pytest_does_not_rewrite_modules_of_klamm(tmp_path: Path) -> None:
    suite = (
        "from importlib.machinery import SourceFileLoader\n"
        "import klamm.testing.broker\n"
        "def test_it_is_imported_as_anywhere_else():\n"
        "    assert type(klamm.testing.broker.__loader__) is SourceFileLoader\n"
    )
    assert "1 passed" in pytest_in(tmp_path, suite)
