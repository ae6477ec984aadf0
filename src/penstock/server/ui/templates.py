"""The Jinja templates of the pages. Everything is escaped, and an undefined name is an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain, zip_longest
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.server.ui import charts, formats
from penstock.server.ui.activity_text import describe
from penstock.server.ui.assets import asset_url
from penstock.server.ui.json_tree import json_tree
from penstock.server.ui.paths import messages_path, queue_path

# Filters that have the name of their function.
FILTERS: Final[tuple[Callable[..., object], ...]] = (
    formats.count,
    formats.short,
    formats.size,
    formats.setting,
    formats.duration,
    formats.moment,
    formats.ago,
    formats.pretty,
    formats.compact,
    formats.zoned,
    formats.instant,
    charts.spark,
    charts.hover,
)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("penstock.server.ui", "html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({each.__name__: each for each in FILTERS})
    made.filters.update(tree=json_tree, sentence=describe, code=_code)
    made.globals.update(
        asset=asset_url,
        chart=charts.chart,
        query=_query,
        queue_path=queue_path,
        messages_path=messages_path,
    )
    return made


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)


def _code(text: str) -> Markup:
    """A text with `commands` in backticks, as in Markdown. The rest is escaped."""
    parts = text.split("`")
    marked = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup("").join(chain.from_iterable(zip_longest(parts[::2], marked, fillvalue="")))


def _query(**values: Any) -> str:
    """A query string of the given values, without empty ones."""
    return "?" + urlencode({name: v for name, v in values.items() if v not in (None, "")})
