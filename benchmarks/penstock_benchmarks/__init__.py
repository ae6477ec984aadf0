"""`penstock bench`: Penstock and a plain SKIP LOCKED table doing the same work on your database.

The numbers of one run are only worth comparing with each other: windows of both systems are
short and interleaved, so that other work of the machine affects both alike.
"""
