"""Penstock compared with its alternatives: see docs/benchmarks.md."""
