"""What to install for an extra is said in packages that a package index has."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from klamm.extras import install_command

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", ["spark", "postgresql", "registry", "schemas"])
def test_the_command_names_each_package_of_the_extra_and_no_other(extra: str) -> None:
    command = install_command(extra)
    assert command.startswith("pip install '")
    names = {part.strip("'").rstrip("0123456789.<>=,") for part in command.split()[2:]}
    assert names == {package.split(">")[0] for package in EXTRAS[extra]}
    assert "klamm" not in command


def test_a_source_tree_that_is_not_installed_says_what_to_install_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def requires(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", requires)
    assert install_command("spark") == "pip install '.[spark]' in the folder of klamm's source"
