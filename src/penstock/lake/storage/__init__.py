"""The files of a lake: where they are, their formats, and the ledger that lists them."""
