"""How to install what an extra of klamm needs, beside a klamm that is installed already.

`pip install 'klamm[spark]'` would ask a package index for klamm itself, where it is not before its release.
"""

from __future__ import annotations


def install_command(extra: str) -> str:
    """The command that brings the packages of an extra, in the versions that klamm wants."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow to import, for an error

    try:
        wanted = requires("klamm") or []
    except PackageNotFoundError:  # a source tree on the path
        return f"pip install '.[{extra}]' in the folder of klamm's source"
    packages = [
        requirement.partition(";")[0].strip()
        for requirement in wanted
        if requirement.partition(";")[2].strip().replace("'", '"') == f'extra == "{extra}"'
    ]
    return f"pip install {' '.join(repr(package) for package in packages)}"
