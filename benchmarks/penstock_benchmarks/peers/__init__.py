"""Penstock beside the queues that one would pick instead: see docs/benchmarks.md."""
