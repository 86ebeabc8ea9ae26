"""What stands between a client and its cluster, for `health()`; safe to call from any thread."""

from __future__ import annotations

from klamm.client.runtime import Core


def cluster_problems(core: Core) -> list[str]:
    """Brokers that cannot be reached and topics that do not exist, in words."""
    problems: list[str] = []
    error = core.metadata.error
    if error is not None:
        problems.append(str(error))
    for failure in list(core.network.unreachable.values()):
        if not any(str(failure) in problem for problem in problems):
            problems.append(f"no connection to {failure}")
    return problems + [f"topic {name} does not exist" for name in core.metadata.missing_topics()]
