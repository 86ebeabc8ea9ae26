"""The pipeline on Spark: a data source that reads and writes topics of any Kafka cluster.

Only this package imports pyspark, and it stops at klamm's client.
"""
