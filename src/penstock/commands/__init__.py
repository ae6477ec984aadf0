"""Statements, their parameters and their decoders. No I/O."""
