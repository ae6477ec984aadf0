"""The data pipeline: queues as Spark source and sink. Only `lake` and `spark` import pyspark."""
