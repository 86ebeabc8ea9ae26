"""A home for Spark without its zipped pyspark: where it is made, and where it is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from klamm.spark.setup.home import spark_home, unzipped_home


def test_a_home_has_everything_of_spark_but_its_zip(tmp_path: Path) -> None:
    environ = {"KLAMM_CACHE": str(tmp_path)}
    home = unzipped_home(environ)
    assert home is not None
    package = Path(pyspark.__file__).parent
    assert (home / "bin" / "spark-submit").samefile(package / "bin" / "spark-submit")
    assert (home / "jars").samefile(package / "jars")
    assert not (home / "python").exists()
    # Made once, found again.
    assert unzipped_home(environ) == home


def test_a_spark_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    assert unzipped_home({"KLAMM_CACHE": str(tmp_path), "SPARK_HOME": "/opt/spark"}) is None
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert unzipped_home({"KLAMM_CACHE": str(tmp_path / "file")}) is None


def test_the_home_is_in_the_environment_only_while_spark_starts(tmp_path: Path) -> None:
    environ = {"KLAMM_CACHE": str(tmp_path)}
    with spark_home(environ):
        assert environ["SPARK_HOME"].startswith(str(tmp_path))
    assert "SPARK_HOME" not in environ
    given = {**environ, "SPARK_HOME": os.sep}
    with spark_home(given):
        assert given["SPARK_HOME"] == os.sep
    assert given["SPARK_HOME"] == os.sep
