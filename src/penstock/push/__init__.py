"""Push delivery: sends the messages of queues to HTTP endpoints.

A subscription names a queue and a URL. `pusher` runs a worker whose handlers send messages, in each
server or in `penstock push run`. Claims, leases, retries and settling are those of the worker.
"""
