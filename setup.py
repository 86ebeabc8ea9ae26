"""Builds the compiled core of the records layer; everything else about the package is in pyproject.toml.

Without a C compiler or Cython the package installs all the same, on the core's pure-Python twin.
In place, for a working tree: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import sys

from setuptools import Extension, setup

CORE = "src/klamm/records"
INCLUDED = ["_crc32c.h", "_wire.h", "_region.pxi", "_walk.pxi", "_columns_in.pxi", "_columns_out.pxi"]

extension = Extension(
    "klamm.records._core",
    sources=[f"{CORE}/_core.pyx"],
    depends=[f"{CORE}/{name}" for name in INCLUDED],
    extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    optional=True,
)

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    extensions = cythonize([extension], compiler_directives={"language_level": "3"})

setup(ext_modules=extensions)
