"""The demo's broker: `klamm up`, which ends with the demo in any case.

Standard input is a pipe from the demo; it closes even when the demo is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from klamm.cli import main


def _end_with_the_demo() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    main()
