"""Metrics, health, and the snapshots and rate history that the pages share."""
