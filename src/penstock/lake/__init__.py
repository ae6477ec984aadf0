"""The data pipeline: the queue as a Spark source and sink. The only room that imports pyspark."""
