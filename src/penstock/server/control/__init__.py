"""The control plane: services, queues on them, brokered enqueue and stats, `/managed-services`.

Work that takes time is a task: a row that describes it, and a message in the queue
`penstock.tasks`. Any server may carry it out. See `runner`.
"""
