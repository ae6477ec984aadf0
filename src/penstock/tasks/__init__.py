"""Tasks: functions that are called through a queue, with typed arguments.

A call is a message like any other. The header `penstock-task` names the task, and the payload is a
JSON object with the arguments by name, so that any language can enqueue one.
"""
