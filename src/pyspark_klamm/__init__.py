"""Spark finds packages of this name and uses their `DefaultSource` for `format("klamm")`."""

from klamm.spark.source import KlammDataSource as DefaultSource

__all__ = ["DefaultSource"]
