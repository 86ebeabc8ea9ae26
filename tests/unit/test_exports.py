"""What `import klamm` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import klamm


@pytest.mark.parametrize("name", klamm.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(klamm, name) is getattr(klamm, name)
    assert name in dir(klamm)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = klamm.nosuch


def test_importing_klamm_imports_nothing_else_of_it() -> None:
    code = "import sys, klamm; print(sorted(name for name in sys.modules if name.startswith('klamm.')))"
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.strip() == "['klamm.version']"
