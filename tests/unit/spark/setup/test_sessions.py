"""What a session is made of, without making one."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from pyspark.errors import PySparkImportError

import klamm
from klamm.spark import session
from klamm.spark.setup import sessions
from klamm.spark.setup.java import SparkSetupError


def setting(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    monkeypatch.setattr(sessions, name, value)


def test_the_versions_here_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def installed(package: str) -> str:
        asked.append(package)
        return version(package)

    setting(monkeypatch, "version", installed)
    sessions.check_versions()
    assert asked == list(sessions.FITTING)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("4.1.0", "pyspark 4.1.0 is not supported, klamm requires 4.2 or newer, below 4.4"),
        ("5.0.0", "is not supported"),
        (None, "pyspark is missing: pip install 'pyspark"),
    ],
)
def test_versions_that_do_not_fit_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, found: str | None, said: str
) -> None:
    def installed(package: str) -> str:
        if found is None:
            raise PackageNotFoundError(package)
        return found

    setting(monkeypatch, "version", installed)
    with pytest.raises(SparkSetupError) as refused:
        session()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("master", "cores"), [("local[3]", "3"), ("local[2,4]", "2"), ("local[*]", None), ("local", None)]
)
def test_a_local_session_shuffles_over_its_cores_and_is_alone(master: str, cores: str | None) -> None:
    settings = sessions.local_settings(master)
    assert settings["spark.sql.shuffle.partitions"] == (cores or str(os.cpu_count()))
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_workers_get_this_python_and_find_klamm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "JAVA_HOME"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", "/other")
    setting(monkeypatch, "java_home", lambda _environ, say: tmp_path)

    sessions.prepare_environment(is_local=True)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == str(tmp_path)
    source = str(Path(klamm.__file__).parents[1])  # the folder that has klamm, not one within it
    folders = os.environ["PYTHONPATH"].split(os.pathsep)
    assert source in folders or source.endswith(("site-packages", "dist-packages"))
    assert "/other" in folders
    sessions.prepare_environment(is_local=True)
    assert os.environ["PYTHONPATH"].split(os.pathsep) == folders


def test_a_program_given_to_spark_submit_runs_where_that_was_told() -> None:
    assert sessions.default_master({}) == "local[*]"
    assert sessions.default_master({"PYSPARK_GATEWAY_PORT": "4711"}) is None


class Connecting:
    """A builder of sessions, as PySpark's, that notes what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[tuple[str, ...]] = []
        self._error = error

    def appName(self, name: str) -> Connecting:  # noqa: N802 - Spark's name
        self.told.append(("app", name))
        return self

    def remote(self, url: str) -> Connecting:
        self.told.append(("remote", url))
        return self

    def config(self, name: str, value: str) -> Connecting:
        self.told.append((name, value))
        return self

    def getOrCreate(self) -> Connecting:  # noqa: N802 - Spark's name
        if self._error is not None:
            raise self._error
        return self


def test_a_url_of_spark_connect_starts_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Connecting()
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", builder)
    setting(monkeypatch, "prepare", None)  # it looks for Java
    session("a", master="sc://host:15002", conf={"spark.sql.ansi.enabled": "false"})
    assert builder.told == [("app", "a"), ("remote", "sc://host:15002"), ("spark.sql.ansi.enabled", "false")]


def test_what_spark_connect_needs_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = PySparkImportError(
        errorClass="PACKAGE_NOT_INSTALLED",
        messageParameters={"package_name": "Pandas", "minimum_version": "2"},
    )
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Connecting(missing))
    with pytest.raises(SparkSetupError, match=r"pip install 'pyspark\[connect\]'"):
        session(master="sc://host")
