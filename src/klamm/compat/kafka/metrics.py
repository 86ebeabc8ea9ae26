"""Refused: an import says what to use instead."""

from klamm.compat.refusals import refuses

refuses("kafka")("metrics")
