"""The data plane: messages and topics under `/api`. Its word for a queue is topic."""
