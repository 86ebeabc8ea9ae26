"""Builds what is compiled; everything else about the package is in pyproject.toml.

Three things are compiled, all with Cython. The core of the records layer is written in it, and has a twin in
pure Python; the calls of Linux's asynchronous I/O are too, and ctypes makes them otherwise. The modules that
small requests to a coordinator pass are plain Python with a .pxd file beside them, which declares their
classes: the compiler uses it, Python ignores it. ARCHITECTURE.md lists them.

Without a C compiler or Cython the package installs all the same, and runs as plain Python. In place, for a
working tree: `python setup.py build_ext --inplace` (`make build`), which compiles what has changed.
"""

from __future__ import annotations

import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

SOURCE = Path("src")
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
    "_singles.pxi",
    "_walk.pxi",
]
IS_WINDOWS = sys.platform == "win32"
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # annotations are for mypy: its `int` has no limits
    "nonecheck": True,
}
FAILURES = (BaseError, CCompilerError, OSError)


def write_if_changed(path: Path, text: str) -> None:
    """Keep the time of a file that stays the same: it is not compiled again then."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class BuildIfPossible(build_ext):
    """A build that warns where others fail: plain Python does all that compiled code does, only slower."""

    def build_extensions(self) -> None:
        if not self._can_compile():
            self.extensions = []
            return
        modules = [each for each in self.extensions if each not in in_cython]
        sources = [Path(each.sources[0]) for each in modules]
        is_complete = self._translate(modules)
        possible = self.extensions if is_complete else in_cython
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            are_built = list(pool.map(self._build, possible))
        if not is_complete or not all(are_built[len(in_cython) :]):
            # They use each other's classes: all or none.
            for each, source in zip(modules, sources, strict=True):
                Path(self.get_ext_fullpath(each.name)).unlink(missing_ok=True)
                for built_in_place in source.parent.glob(f"{source.stem}.*.so"):
                    built_in_place.unlink()
            self.extensions = in_cython

    def _translate(self, modules: list[Extension]) -> bool:
        """Make C of the declared modules; whether that is possible."""
        try:
            from Cython.Build import cythonize  # noqa: PLC0415 -- may be missing

            translated = cythonize(
                [Extension(each.name, [each.sources[0]]) for each in modules],
                include_path=[str(SOURCE)],
                build_dir=self.build_temp,
                nthreads=0 if IS_WINDOWS else os.cpu_count() or 1,
                quiet=True,
                compiler_directives=DIRECTIVES,
            )
        except Exception as error:  # Cython has several kinds, without a common one
            self.warn(f"the declared modules were not compiled, they run as Python: {error}")
            return False
        for module, made in zip(modules, translated, strict=True):
            module.sources, module.depends = made.sources, []  # a file that is only touched is not compiled
        return True

    def _can_compile(self) -> bool:
        """Try a compiler and Python's headers first: to make C of all modules takes a minute."""
        probe = Path(self.build_temp) / "probe.c"
        write_if_changed(probe, "#include <Python.h>\n")
        try:
            self.compiler.compile([str(probe)], output_dir=self.build_temp)
        except FAILURES as error:
            self.warn(f"nothing is compiled, klamm runs as Python: {error}")
            return False
        return True

    def _build(self, extension: Extension) -> bool:
        try:
            self.build_extension(extension)
        except FAILURES as error:
            self.warn(f"{extension.name} was not built, it runs as Python: {error}")
            return False
        Path(self.get_ext_fullpath(extension.name)).touch()  # it is what its source is, also if that is newer
        return True


core = Extension(
    "klamm.records._core",
    sources=[f"{CORE}/_core.pyx"],
    depends=[f"{CORE}/{name}" for name in INCLUDED],
    extra_compile_args=[] if IS_WINDOWS else ["-O3", "-g0"],
    optional=True,
)
kernel_calls = Extension(
    "klamm.storage.engines.segments._aio",
    sources=["src/klamm/storage/engines/segments/_aio.pyx"],
    extra_compile_args=["-O2", "-g0"],
    optional=True,
)
in_cython = [core, kernel_calls] if sys.platform == "linux" else [core]
declared = [
    Extension(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts),
        sources=[str(path.with_suffix(".py"))],
        depends=[str(path)],
        # A bound method of another module's class is compiled to something else, with a warning.
        extra_compile_args=[] if IS_WINDOWS else ["-O2", "-g0", "-Werror=incompatible-pointer-types"],
        optional=True,
    )
    for path in sorted(SOURCE.rglob("*.pxd"))
]

# The core fills tuples in place, which is CPython's business alone.
# KLAMM_BUILD=pure makes a wheel for every platform (py3-none-any), without anything compiled.
is_pure = os.environ.get("KLAMM_BUILD") == "pure" or platform.python_implementation() != "CPython"
extensions = [] if is_pure else [*in_cython, *declared]

setup(ext_modules=extensions, cmdclass={"build_ext": BuildIfPossible})
