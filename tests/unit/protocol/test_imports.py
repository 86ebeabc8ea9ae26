"""What bytes and messages bring along when they are imported."""

from __future__ import annotations

import subprocess
import sys


def test_hypothesis_stays_out_and_can_still_be_had() -> None:
    asked = (
        "import sys, klamm.protocol.schema; print('hypothesis' in sys.modules); "
        "import hypothesis.strategies; print('hypothesis' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False", "True"]
