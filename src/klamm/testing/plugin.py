"""Fixtures for pytest, found without configuration. Nothing of klamm is imported before a test uses one."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from klamm import Consumer, Producer
    from klamm.testing.broker import Broker
    from klamm.testing.secure_broker import SecureBroker

BOOTSTRAP: Final = "KLAMM_TEST_BOOTSTRAP"  # of a cluster to use in place of brokers in the process
_LOG_LINES: Final = 500
# From the widest scope: a test that uses several has its topics on the first of them.
_BROKERS: Final = ("klamm_session_broker", "klamm_module_broker", "klamm_broker")
_TOLD: Final = (*_BROKERS, "klamm_secure_broker")  # in reports
_RUNNING: Final = pytest.StashKey[dict[str, Any]]()  # brokers that several tests use, by fixture
_BEGAN: Final = pytest.StashKey[dict[str, tuple[int, int]]]()  # lines of their stories and logs before a test
_numbers = count(1)
_recent_prefixes: deque[str] = deque(maxlen=10)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # pytest rewrites the assertions of every package that has a plugin, and does so again at each start where
    # Python writes no bytecode (PYTHONDONTWRITEBYTECODE, usual in containers): a second for modules that need
    # none of it. There is no setting for it; a pytest that keeps the names elsewhere rewrites as before.
    getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", set()).discard("klamm")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "klamm(**settings): settings of klamm_broker, as num_partitions=3")


class OtherCluster:
    """A cluster that is not klamm's own: it can be looked at, but its time and its faults are not ours."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._observer: Any = None
        self._seen: dict[str, str] = {}

    def _look(self) -> Any:
        if self._observer is None:
            from klamm.testing.observation import Observer  # noqa: PLC0415 - as the module says

            self._observer = Observer({"bootstrap.servers": self.bootstrap}, self._seen)
        return self._observer

    def records(self, topic: str, *, committed: bool = True) -> Any:
        """As those of a klamm.testing.Broker."""
        __tracebackhide__ = True
        return self._look().records(topic, "read_committed" if committed else "read_uncommitted")

    def topics(self) -> Any:
        """As those of a klamm.testing.Broker."""
        return self._look().topics()

    def create_topic(self, name: str, partitions: int = -1, configs: Any = None) -> None:
        """As that of a klamm.testing.Broker; the test deletes it."""
        self._look().create_topic(name, partitions, configs or {})

    def group(self, group_id: str) -> Any:
        """As that of a klamm.testing.Broker."""
        return self._look().group(group_id)

    def wait_until(
        self, is_so: Callable[[], Any], timeout: str = "30s", *, real_time: bool = True, **equals: Any
    ) -> Any:
        """As that of a klamm.testing.Broker, always on real time."""
        from klamm.testing.observation import wait_until  # noqa: PLC0415 - as the module says

        __tracebackhide__ = True
        return wait_until(is_so, timeout, seen=self._seen, **equals)

    def close(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"broker.{name} needs klamm's own broker: unset {BOOTSTRAP}")


class _Log(logging.Handler):
    """Keeps the last lines of klamm's log for the report of a failed test."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: deque[logging.LogRecord] = deque(maxlen=_LOG_LINES)
        self.count = 0
        self._logger = logging.getLogger("klamm.broker")
        self._level = self._logger.level

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.count += 1

    def __enter__(self) -> _Log:
        self._logger.addHandler(self)
        if self._logger.getEffectiveLevel() > logging.INFO:
            self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def text(self, since: int, captured: str) -> str:
        """The lines since a `count`, without those that pytest has captured: the report has them anyway."""
        form = logging.Formatter("%(levelname)-7s %(name)s: %(message)s")
        records = list(self.records)
        new = records[max(0, len(records) - (self.count - since)) :]
        return "\n".join(form.format(record) for record in new if record.getMessage() not in captured)


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("klamm"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.klamm has settings by name, as num_partitions=3")
        settings |= marker.kwargs
    return settings


def _a_broker(settings: dict[str, Any]) -> Iterator[Any]:
    if bootstrap := os.environ.get(BOOTSTRAP):
        other = OtherCluster(bootstrap)
        yield other
        other.close()
        return
    from klamm.testing.broker import Broker  # noqa: PLC0415 - as the module says

    with _Log() as log, Broker(**settings) as broker:
        broker.log = log
        yield broker


@pytest.fixture
def klamm_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A klamm.testing.Broker for this test alone."""
    settings = _settings(request)
    if "klamm_container_bootstrap" in request.fixturenames:
        settings.setdefault("containers", True)
    yield from _a_broker(settings)


@pytest.fixture
def klamm_secure_broker(request: pytest.FixtureRequest) -> Iterator[SecureBroker]:
    """A klamm.testing.SecureBroker for this test alone: TLS, users, ACLs. Needs cryptography."""
    if BOOTSTRAP in os.environ:
        pytest.skip(f"klamm_secure_broker needs klamm's own broker: unset {BOOTSTRAP}")
    from klamm.testing.secure_broker import SecureBroker  # noqa: PLC0415 - as the module says

    with _Log() as log, SecureBroker(**_settings(request)) as broker:
        broker.log = log
        yield broker


@pytest.fixture(scope="module")
def klamm_module_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A klamm.testing.Broker for the tests of a module; its settings are in `pytestmark`."""
    yield from _shared(request, _settings(request))


@pytest.fixture(scope="session")
def klamm_session_settings() -> dict[str, Any]:
    """The settings of klamm_session_broker, by name: write a fixture of this name in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def klamm_session_broker(
    request: pytest.FixtureRequest, klamm_session_settings: dict[str, Any]
) -> Iterator[Broker]:
    """A klamm.testing.Broker for all tests; klamm_topic and klamm_group keep them apart."""
    yield from _shared(request, klamm_session_settings)


def _shared(request: pytest.FixtureRequest, settings: dict[str, Any]) -> Iterator[Any]:
    """A broker that several tests use."""
    running = request.config.stash.setdefault(_RUNNING, {})
    assert request.fixturename is not None
    for broker in _a_broker(settings):
        running[request.fixturename] = broker
        yield broker
        del running[request.fixturename]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where the test begins in the stories and the logs of brokers that other tests have used, too."""
    item.stash[_BEGAN] = {
        name: (broker.story_so_far, broker.log.count)
        for name, broker in item.config.stash.get(_RUNNING, {}).items()
        if not isinstance(broker, OtherCluster)
    }


@pytest.fixture
def klamm_prefix(request: pytest.FixtureRequest) -> str:
    """What names of topics and groups of this test begin with."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", request.node.name).strip("-")[:100]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    # In containers, the process has the same number in each run; another cluster remembers the last one.
    run = uuid4().hex[:12] if BOOTSTRAP in os.environ else str(os.getpid())
    prefix = f"{name}-{worker}-{run}-{next(_numbers)}"
    _recent_prefixes.append(prefix)
    return prefix


@pytest.fixture
def klamm_bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker of this test: that of the session or of the module if it uses one of them."""
    bootstrap: str = _broker_of(request).bootstrap
    return bootstrap


@pytest.fixture
def klamm_container_bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker of this test for a program in a container of this machine."""
    bootstrap: str = _broker_of(request).container_bootstrap
    return bootstrap


def _broker_of(request: pytest.FixtureRequest) -> Any:
    used = [name for name in _BROKERS if name in request.fixturenames]
    return request.getfixturevalue(used[0] if used else "klamm_broker")


@pytest.fixture
def klamm_registry(klamm_bootstrap: str) -> Iterator[str]:
    """The URL of a schema registry on the broker of this test. Needs the packages of klamm[registry]."""
    from klamm.registry.server import RegistryServer  # noqa: PLC0415 - as the module says

    with RegistryServer({"bootstrap.servers": klamm_bootstrap}) as server:
        yield server.url


@pytest.fixture
def klamm_topic(request: pytest.FixtureRequest, klamm_bootstrap: str, klamm_prefix: str) -> Iterator[str]:
    """The name of a topic for this test, with num_partitions of @pytest.mark.klamm."""
    import klamm  # noqa: PLC0415 - as the module says

    name = f"{klamm_prefix}-topic"
    with klamm.Admin(bootstrap_servers=klamm_bootstrap) as admin:
        admin.create_topics([klamm.NewTopic(name, _settings(request).get("num_partitions", 1))])
    yield name
    if BOOTSTRAP in os.environ:
        with klamm.Admin(bootstrap_servers=klamm_bootstrap) as admin:
            admin.delete_topics([name], raise_errors=False)  # the test may have deleted it


@pytest.fixture
def klamm_group(klamm_prefix: str) -> Iterator[str]:
    """The name of a group for this test."""
    name = f"{klamm_prefix}-group"
    yield name
    if bootstrap := os.environ.get(BOOTSTRAP):
        import klamm  # noqa: PLC0415 - as the module says

        with klamm.Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_groups([name], raise_errors=False)  # the test may not have used it


@pytest.fixture
def klamm_producer(klamm_bootstrap: str) -> Iterator[Producer]:
    """A klamm.Producer."""
    import klamm  # noqa: PLC0415 - as the module says

    with klamm.Producer(bootstrap_servers=klamm_bootstrap) as producer:
        yield producer


@pytest.fixture
def klamm_consumer(klamm_bootstrap: str, klamm_topic: str, klamm_group: str) -> Iterator[Consumer[Any, Any]]:
    """A klamm.Consumer of klamm_topic in klamm_group, from the first record on."""
    import klamm  # noqa: PLC0415 - as the module says

    with klamm.Consumer(
        klamm_topic,
        bootstrap_servers=klamm_bootstrap,
        group_id=klamm_group,
        auto_offset_reset="earliest",
    ) as consumer:
        yield consumer


class AsyncClients:
    """Makes clients for asyncio: `async with klamm_aio.consumer() as consumer`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group

    def producer(self, **settings: Any) -> Any:
        """A klamm.aio.Producer."""
        import klamm  # noqa: PLC0415 - as the module says

        return klamm.aio.Producer(bootstrap_servers=self._bootstrap, **settings)

    def consumer(self, *topics: str, **settings: Any) -> Any:
        """A klamm.aio.Consumer of klamm_topic in klamm_group, from the first record on."""
        import klamm  # noqa: PLC0415 - as the module says

        return klamm.aio.Consumer(
            *(topics or (self._topic,)),
            **{
                "bootstrap_servers": self._bootstrap,
                "group_id": self._group,
                "auto_offset_reset": "earliest",
                **settings,
            },
        )


@pytest.fixture
def klamm_aio(klamm_bootstrap: str, klamm_topic: str, klamm_group: str) -> AsyncClients:
    """Clients for asyncio; works with any plugin that runs coroutines."""
    return AsyncClients(klamm_bootstrap, klamm_topic, klamm_group)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Add the story of groups and the broker's log to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if call.when != "call" or not report.failed:
        return
    for name in _TOLD:
        broker = getattr(item, "funcargs", {}).get(name)
        if broker is None or isinstance(broker, OtherCluster):
            continue
        lines, records = item.stash.get(_BEGAN, {}).get(name, (0, 0))
        captured = "\n".join(text for title, text in report.sections if title.startswith("Captured log"))
        story, log = broker.story_since(lines), broker.log.text(records, captured)
        for title, text in (("story", story), ("log", log)):
            if own := _without_others(text, getattr(item, "funcargs", {}).get("klamm_prefix", "")):
                report.sections.append((f"{name}: {title}", own))
    if call.excinfo is not None and "klamm.testing.rebalances.group" in sys.modules:
        report.sections += _told_by_scripted_groups(item, call.excinfo.traceback)


def _told_by_scripted_groups(item: pytest.Item, traceback: Any) -> Iterator[tuple[str, str]]:
    """The stories and logs of the scripted groups in the variables of the test, unless its error has them."""
    from klamm.testing.rebalances.group import ScriptedGroup  # noqa: PLC0415 - as the module says

    found = {
        name: value
        for entry in traceback
        if str(entry.path) == str(item.path)
        for name, value in entry.frame.f_locals.items()
        if isinstance(value, ScriptedGroup) and not value.is_told
    }
    for name, group in found.items():
        yield f"{name}: story", group.story()
        if group.log:
            yield f"{name}: log", group.log


def _without_others(text: str, prefix: str) -> str:
    """Without lines about the test before: its last members leave while the next test begins."""
    others = [f"{each}-" for each in _recent_prefixes if each != prefix]
    return "\n".join(line for line in text.splitlines() if not any(each in line for each in others))
