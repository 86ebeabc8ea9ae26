"""aiokafka's classes to derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod

from klamm.compat.callers import ConsumerRebalanceListener

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class AbstractTokenProvider(ABC):
    """Gives tokens for SASL/OAUTHBEARER, for `sasl_oauth_token_provider`."""

    @abstractmethod
    async def token(self) -> str:
        """A token that is valid now."""

    def extensions(self) -> dict[str, str]:
        """Not sent by klamm's client."""
        return {}
