"""`group.consumer.migration.policy`: which way a group with members may change its protocol."""

from __future__ import annotations

from enum import StrEnum


class MigrationPolicy(StrEnum):
    """The values are Kafka's."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"  # classic to consumer
    DOWNGRADE = "downgrade"  # consumer to classic
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)
