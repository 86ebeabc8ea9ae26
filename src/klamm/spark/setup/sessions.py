"""A Spark session with what was found to matter for a pipeline of Python workers."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.extras import install_command
from klamm.spark.setup.home import spark_home
from klamm.spark.setup.java import SparkSetupError, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Package -> the versions that fit, oldest included, newest not.
FITTING: Final[Mapping[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    "pyspark": ((4, 2), (4, 4)),
    "pyarrow": ((17, 0), (1000, 0)),
}
# Loopback TCP costs some 40 ms per task, a Unix socket next to nothing.
SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
# Spark would warn of each function that is used in a query, and then call it without Arrow.
WITHOUT_PANDAS: Final[Mapping[str, str]] = {"spark.sql.execution.pythonUDF.arrow.enabled": "false"}
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
# A quick start rather than fast code in the long run; a checkpoint that a power cut may tear.
QUICK_SETTINGS: Final[Mapping[str, str]] = {
    # With one compiler the JVM has room for 48 MB of code: some hundred queries fill it, and then it fails.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
    "spark.driver.memory": "1g",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def session(
    app: str = "klamm",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    quick: bool = False,
    log_level: str = "ERROR",
) -> SparkSession:
    """A Spark session: on this machine by default, on any cluster by its master URL.

    A URL of Spark Connect (`sc://host:15002`) gives a session of that server, where klamm must be installed.
    `conf` has Spark's own names and wins over everything here. `quick` is for tests and demonstrations.
    Without Java on the machine a small runtime is fetched once. Raises SparkSetupError with one clear line.
    """
    given = {**(conf or {})}
    where = master or given.get("spark.master") or default_master(os.environ)
    if where is not None and where.startswith("sc://"):
        return _remote(app, where, given)
    is_local = prepare(where)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - absent until the extra is installed

    builder = SparkSession.builder.appName(app)
    settings = {**SETTINGS, **(QUICK_SETTINGS if quick else {})}
    if find_spec("pandas") is None:
        settings |= WITHOUT_PANDAS
    if where is not None:
        builder = builder.master(where)
        settings |= local_settings(where) if is_local else {}
    for name, value in {**settings, **given}.items():
        builder = builder.config(name, value)
    with spark_home() if is_local else nullcontext():
        spark = builder.getOrCreate()
    _activate(spark)
    spark.sparkContext.setLogLevel(log_level)
    return spark


def _remote(app: str, url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect: Java, Python workers and klamm are the server's."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - absent until the extra is installed
    from pyspark.sql import SparkSession  # noqa: PLC0415

    check_versions()
    builder = SparkSession.builder.appName(app).remote(url)
    for name, value in conf.items():
        if name != "spark.master":
            builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if error.getCondition() != "PACKAGE_NOT_INSTALLED":
            raise
        raise SparkSetupError(
            f"Spark Connect needs packages that are not installed: pip install 'pyspark[connect]'. {error}"
        ) from error


def _activate(spark: SparkSession) -> None:
    """Make it the session of this thread: there, and nowhere else, a write looks for Python data sources."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.SparkSession.setActiveSession(spark._jsparkSession)


def prepare(master: str | None, *, say: Callable[[str], None] = log.warning) -> bool:
    """Make sure that Spark can start, and start where it should; True when that is this machine.

    Raises SparkSetupError when it cannot.
    """
    check_versions()
    is_local = master is not None and master.startswith("local")
    prepare_environment(is_local=is_local, say=say)
    return is_local


def default_master(environ: Mapping[str, str]) -> str | None:
    """All cores of this machine; None under spark-submit, which sets the master itself."""
    return None if "PYSPARK_GATEWAY_PORT" in environ else "local[*]"


def local_settings(master: str) -> dict[str, str]:
    """On one machine: listen on the loopback address only, and use few shuffle tasks."""
    found = re.match(r"local\[(\d+)", master)
    cores = int(found[1]) if found else (os.cpu_count() or 1)
    return {**LOCAL_SETTINGS, "spark.sql.shuffle.partitions": str(cores)}


def check_versions() -> None:
    """Raise when a package is absent or does not fit, in one line."""
    for package, (oldest, too_new) in FITTING.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            raise SparkSetupError(f"{package} is missing: {install_command('spark')}") from None
        numbers = re.match(r"(\d+)\.(\d+)", found)
        release = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
        if not oldest <= release < too_new:
            wanted = f"{oldest[0]}.{oldest[1]} or newer"
            if too_new[0] < 1000:
                wanted += f", below {too_new[0]}.{too_new[1]}"
            raise SparkSetupError(
                f"{package} {found} is not supported, klamm requires {wanted}: {install_command('spark')}"
            )


def prepare_environment(*, is_local: bool, say: Callable[[str], None] = log.warning) -> None:
    """Environment variables for Spark: Java, the workers' Python, and the path of klamm."""
    home = java_home(os.environ, say=say)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not is_local:
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark looks for its host's name, and warns
    source = str(Path(__file__).resolve().parents[3])  # the folder that has klamm
    if source not in _site_folders():
        # Run from its source tree: workers must find it, too.
        rest = os.environ.get("PYTHONPATH", "")
        if source not in rest.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (source, rest)))


def _site_folders() -> set[str]:
    return {folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))}
