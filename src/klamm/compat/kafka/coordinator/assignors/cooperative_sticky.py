"""kafka-python's `cooperative_sticky` assignor."""

from __future__ import annotations

from klamm.compat.assignors import CooperativeStickyAssignor

__all__ = ["CooperativeStickyAssignor"]
