"""Both cores, so that every promise is kept twice."""

from __future__ import annotations

from types import ModuleType

import pytest

from unit.records.cores import compiled_core, pure_core


@pytest.fixture(params=["pure", "compiled"], scope="session")
def core(request: pytest.FixtureRequest) -> ModuleType:
    """The core under test; the compiled one must be there."""
    return pure_core() if request.param == "pure" else compiled_core()
