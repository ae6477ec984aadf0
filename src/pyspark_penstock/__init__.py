"""Where Spark finds `format("penstock")`: it looks into every module named `pyspark_*`."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
