"""What a client may do, as bit fields: without an authorizer, everything that makes sense."""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -2147483648
# Bits are Kafka's operation codes: read 3, write 4, create 5, delete 6, alter 7, describe 8,
# cluster action 9, describe configs 10, alter configs 11, idempotent write 12.
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
