"""kill -9 at random moments with groups at work: what was acknowledged comes back as the log has it.

KLAMM_GROUP_KILLS=200 and KLAMM_GROUP_KILL_SEED=7 make it longer and another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from faults.group_load import GroupLoad

KILLS = int(os.environ.get("KLAMM_GROUP_KILLS", "8"))
SEED = int(os.environ.get("KLAMM_GROUP_KILL_SEED", "0"))


def test_groups_and_commits_come_back_as_acknowledged_whenever_the_broker_is_killed(tmp_path: Path) -> None:
    load = GroupLoad(tmp_path, SEED)
    broker = load.start()
    try:
        while load.kills < KILLS:
            load.run_until_killed(broker)
            broker = load.start()
            load.check(broker)
        assert broker.stop() == 0
    finally:
        broker.kill()
    load.check_files()
    assert min(load.commits, load.generations, load.replacements) > 0, "every kind of work was done"
