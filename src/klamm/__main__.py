"""`python -m klamm` is the `klamm` command."""

from __future__ import annotations

from klamm.cli import main

if __name__ == "__main__":
    main()
