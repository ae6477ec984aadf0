"""Keeps a lake small and correct: compaction, retention and verification."""
