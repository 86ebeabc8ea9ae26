"""`python -m klamm.cli`, the same as `python -m klamm`."""

from __future__ import annotations

from klamm.cli import main

if __name__ == "__main__":
    main()
