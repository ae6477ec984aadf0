"""Models of payloads: the columns of a queue's typed table, and the rules for its rows."""
