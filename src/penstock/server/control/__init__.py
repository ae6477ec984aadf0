"""The control plane: services, queues on them, brokered enqueue and stats, `/managed-services`.

What takes time is a task: a row that says what is to be done, and a message in the queue
`penstock.tasks` that brings it to a server. Any server may carry it out; see `runner`.
"""
