"""The hooks of the documentation site: mkdocs.yml names this file, and `make docs` runs it."""

from __future__ import annotations

import hashlib
import re
from typing import Any

_LIST_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_FENCE = re.compile(r" *(```|~~~)")
# A link of these kinds names a page. A browser loads the other kinds.
_LOADED_ELSEWHERE = re.compile(
    r'<(?:script|img|iframe|link(?! rel="(?:canonical|prev|next|alternate)"))\b'
    r'[^>]*?\b(?:src|href)="(?:https?:)?//[^"]*"',
    re.IGNORECASE,
)
_SVG_ID = re.compile(r'<svg[^>]*? id="([^"]+)"')


def on_config(config: Any) -> Any:
    """Draw Mermaid diagrams while building: in the browser, Material would use a CDN for them."""
    fence = {"name": "mermaid", "class": "diagram", "format": _draw}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    return separate_lists(markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads anything from another host: the site works without a network."""
    if found := _LOADED_ELSEWHERE.search(output):
        raise ValueError(f"{page.file.src_uri} loads from another host: {found[0]}")
    return output


def separate_lists(markdown: str) -> str:
    """Put an empty line before each list that follows a paragraph.

    CommonMark, which code hosts use to show these files, needs none; Python-Markdown does.
    """
    lines: list[str] = []
    in_fence = in_list = False
    for line in markdown.split("\n"):
        starts_item = not in_fence and _LIST_ITEM.match(line) is not None
        if starts_item and not in_list and lines and lines[-1].strip():
            lines.append("")
        if _FENCE.match(line):
            in_fence = not in_fence
        in_list = starts_item or (in_list and line.strip() != "")
        lines.append(line)
    return "\n".join(lines)


def _draw(source: str, _language: str, css_class: str, *_: Any, **__: Any) -> str:
    import mermaidx

    svg = mermaidx.render(source).svg()
    found = _SVG_ID.search(svg)
    if found is None:
        raise ValueError(f"mermaidx drew no SVG with an id for:\n{source}")
    # Two diagrams of one page must not share the id that their styles refer to.
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    return f'<div class="{css_class}">{svg.replace(found[1], f"diagram-{digest}")}</div>'
