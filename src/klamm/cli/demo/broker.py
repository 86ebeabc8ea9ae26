"""The demo's broker: `klamm up`, but it ends with the demo, however that ends.

Standard input is a pipe that the demo holds open; a demo that was killed holds it no more.
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
