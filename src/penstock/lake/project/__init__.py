"""A project: the models of a lake's queues, and its own gold tables."""

from penstock.lake.models.rules import Rule, expression, in_range, matches, not_null
from penstock.lake.project.project import Project

__all__ = ["Project", "Rule", "expression", "in_range", "matches", "not_null"]
