"""The Jinja templates of the pages. Everything is escaped, and an undefined name is an error."""

from __future__ import annotations

from functools import cache
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.server.ui import charts, formats
from penstock.server.ui.activity_text import describe
from penstock.server.ui.assets import asset_url
from penstock.server.ui.diagnosis import messages_path, queue_path
from penstock.server.ui.json_tree import json_tree


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("penstock.server.ui", "html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=formats.count,
        short=formats.short,
        size=formats.size,
        setting=formats.setting,
        duration=formats.duration,
        moment=formats.moment,
        ago=formats.ago,
        pretty=formats.pretty,
        spark=charts.spark,
        hover=charts.hover,
        zoned=formats.zoned,
        instant=formats.instant,
        tree=json_tree,
        sentence=describe,
        code=_code,
    )
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
