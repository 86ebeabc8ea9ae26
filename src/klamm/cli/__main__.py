"""`python -m klamm.cli`, for where the `klamm` command is not on the path."""

from __future__ import annotations

from klamm.cli import main

main()
