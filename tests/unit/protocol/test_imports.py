"""What bytes and messages bring along when they are imported."""

from __future__ import annotations

import subprocess
import sys


def test_neither_kio_nor_the_modules_of_messages_are_imported_before_they_are_used() -> None:
    asked = "import sys, klamm.protocol.codec; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert "klamm.protocol.messages" in told.split()
    assert not [name for name in told.split() if name.startswith(("kio", "klamm.protocol.messages."))]
