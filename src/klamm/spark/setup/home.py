"""A home for Spark in which Python workers start three times as fast.

Spark puts its zipped copy of pyspark before the installed one, and Python keeps nothing of what it compiles
from a zip: every worker process compiles pyspark anew, for about a second. In a home without the zip workers
find the installed package, which is the very same.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from klamm.spark.setup.java import cache_dir

PARTS: Final = ("bin", "sbin", "jars", "conf", "data")  # all but `python`, where the zip is


def unzipped_home(environ: Mapping[str, str]) -> Path | None:
    """What SPARK_HOME should be; None where it is best left alone."""
    if environ.get("SPARK_HOME") or sys.platform == "win32":
        return None
    spec = find_spec("pyspark")
    if spec is None or not spec.origin:
        return None
    package = Path(spec.origin).parent
    if not (package / "jars").is_dir():
        return None  # only a client of a Spark elsewhere
    key = hashlib.sha256(str(package).encode()).hexdigest()[:12]
    folder = cache_dir(environ) / "spark-home" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in PARTS:
            if (package / part).is_dir():
                with suppress(FileExistsError):
                    (folder / part).symlink_to(package / part)
    except OSError:
        return None  # a cache that cannot be written costs a second, not the query
    return folder


@contextmanager
def spark_home(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """While Spark is started; another program that this one starts may have another Spark."""
    home = unzipped_home(environ)
    if home is None:
        yield
        return
    environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del environ["SPARK_HOME"]
