"""Spark looks for packages of this name and takes their `DefaultSource`: `format("klamm")` needs no more."""

from klamm.spark.source import KlammDataSource as DefaultSource

__all__ = ["DefaultSource"]
