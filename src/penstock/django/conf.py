"""The setting `PENSTOCK` of a Django project.

| key | meaning | default |
|---|---|---|
| `DATABASE` | the alias of the database that has the schema | `"default"` |
| `QUEUES` | queues that `migrate` creates: names, or names with their settings | none |
| `UI_GRANTS` | the path of a function that says which grants a user of the admin UI has | none |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS

KEYS: Final = ("DATABASE", "QUEUES", "UI_GRANTS")


@dataclass(frozen=True, slots=True)
class PenstockSettings:
    """The current settings."""

    database: str = DEFAULT_DB_ALIAS
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ui_grants: str | None = None


def penstock_settings() -> PenstockSettings:
    """Read at each use, because tests override settings."""
    found = getattr(settings, "PENSTOCK", {})
    if not isinstance(found, Mapping):
        raise ImproperlyConfigured(f"PENSTOCK is {found!r}; it must be a dictionary.")
    for key in found:
        if key not in KEYS:
            raise ImproperlyConfigured(
                f"PENSTOCK has an unknown key {key!r}. Known keys: {', '.join(KEYS)}."
            )
    return PenstockSettings(
        database=found.get("DATABASE", DEFAULT_DB_ALIAS),
        queues=_queues(found.get("QUEUES", ())),
        ui_grants=found.get("UI_GRANTS"),
    )


def _queues(value: Any) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values()):
        return value
    names = [] if isinstance(value, str | Mapping) or not isinstance(value, Iterable) else [*value]
    if len(names) != len(set(names)) or not all(isinstance(name, str) for name in names):
        names = []
    if value and not names:
        raise ImproperlyConfigured(
            "PENSTOCK['QUEUES'] must be a list of names, or a dictionary of names and settings, "
            "such as {'emails': {'lease_seconds': 60}}."
        )
    return {name: {} for name in names}
