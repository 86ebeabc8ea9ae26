"""Builds the compiled core of the records layer; everything else about the package is in pyproject.toml.

Without a C compiler or Cython the package installs all the same, on the core's pure-Python twin.
In place, for a working tree: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import os
import platform
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

CORE = "src/klamm/records"
INCLUDED = [
    "_commit_wire.h",
    "_crc32c.h",
    "_offset_table.h",
    "_offsets.h",
    "_wire.h",
    "_builder.pxi",
    "_columns_in.pxi",
    "_columns_out.pxi",
    "_commit_wire.pxi",
    "_offset_records.pxi",
    "_offset_table.pxi",
    "_offsets.pxi",
    "_region.pxi",
    "_walk.pxi",
]


class BuildIfPossible(build_ext):
    """A build that warns where others fail: the twin does everything the core does, only slower."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, OSError) as error:
            self.warn(f"{ext.name} was not built, its pure-Python twin will do: {error}")


core = Extension(
    "klamm.records._core",
    sources=[f"{CORE}/_core.pyx"],
    depends=[f"{CORE}/{name}" for name in INCLUDED],
    extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-g0"],
    optional=True,
)

# The core fills tuples in place, which is CPython's business alone.
# KLAMM_BUILD=pure makes a wheel for every platform (py3-none-any), without the core.
is_pure = os.environ.get("KLAMM_BUILD") == "pure" or platform.python_implementation() != "CPython"
extensions = [] if is_pure else [core]

setup(ext_modules=extensions, cmdclass={"build_ext": BuildIfPossible})
