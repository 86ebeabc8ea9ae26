"""Groups in which the exactly-once sink stores its decisions: their offsets are not positions in a topic.

The sink commits the number of its last batch, in the batch's own transaction, as an offset of the group
`<transactionalId>.sink`. Such a group never reads, so that it has no lag.
"""

from __future__ import annotations

from typing import Final

GROUP_SUFFIX: Final = ".sink"
MARK: Final = "v1;"  # then the query; the offset is the number of the batch
SLOT_MARK: Final = "p1;"  # then the batch, `;` and the query; the offset is that of a record


def is_decision(group_id: str, metadata: str) -> bool:
    """Whether an offset that was committed with this metadata is a decision of a sink."""
    return group_id.endswith(GROUP_SUFFIX) and metadata.startswith((MARK, SLOT_MARK))
