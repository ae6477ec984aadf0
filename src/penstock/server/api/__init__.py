"""The data plane: messages and topics under `/api`. A topic is a queue, in its words."""
