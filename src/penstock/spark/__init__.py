"""The Spark data source: log reader, claim reader, snapshot reader and sink."""
