"""Every page and form at every width, light and dark: nothing is cut off or sticks out.

tests/ui/test_quality.py has the short form.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import expect
from tests.ui.addresses import all_addresses
from tests.ui.conftest import Site, Visit

from penstock.commands.write.bulk_acts import request_bulk_act

WIDTHS = (390, 768, 1024, 1440, 1920)
# Elements beyond the window, and containers whose content is wider than they are. The strip of
# pages and code may be scrolled.
STICKING_OUT = """() => {
  const scrolls = "svg, pre, nav.main, .hide, .skip, option";
  const shown = (e) => e.checkVisibility() && !e.closest(scrolls);
  const boxes = ".scroll, .tile, .finding, .head, .acts, .facts, .chart, .banner, main, header";
  const name = (e) => `${e.tagName}.${e.className} ${(e.textContent || "").trim().slice(0, 40)}`;
  const all = [...document.querySelectorAll("body *")].filter(shown);
  const outside = all.filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width > 0 && (r.right > innerWidth + 1 || r.left < -1);
  });
  const cut = all.filter((e) =>
    e.matches(boxes) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0);
  // The texts of a chart are inside of it, apart from each other, and large enough to be read.
  const charts = [...document.querySelectorAll(".chart > svg")].flatMap((svg) => {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
    return texts.filter(([e, r], n) =>
      r.left < box.left - 1 || r.right > box.right + 1 || r.height < 10 ||
      texts.slice(n + 1).some(([, o]) =>
        r.left < o.right && o.left < r.right && r.top < o.bottom - 2 && o.top < r.bottom - 2)
    ).map(([e]) => e);
  });
  return [...outside, ...cut, ...charts].slice(0, 5).map(name);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_on_any_page_or_form(full: Site, visit: Visit, width: int) -> None:
    """With PENSTOCK_TEST_PICTURES, it stores a picture of every page in that folder."""
    page = visit(full, viewport={"width": width, "height": 900}, color_scheme="dark")
    pictures = os.environ.get("PENSTOCK_TEST_PICTURES")
    found = {}
    for number, path in enumerate(all_addresses(full)):
        page.goto(path)
        if wrong := page.evaluate(STICKING_OUT):
            found[path] = wrong
        if pictures:
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                file = Path(pictures) / f"{number:02}-{width}-{scheme}.png"
                page.screenshot(path=file, full_page=True)
    assert found == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_key_and_its_group_fit_into_a_list(sick: Site, visit: Visit, width: int) -> None:
    queue = f"grouped-{uuid4().hex[:6]}"
    sick.client.create_queue(queue)
    sick.client.enqueue(queue, 1, key="order-5120330", group="a-customer-with-a-long-name")
    page = visit(sick, f"/messages?queue={queue}", viewport={"width": width, "height": 900})
    expect(page.get_by_text("group a-customer-with-a-long-name")).to_be_visible()
    assert page.evaluate(STICKING_OUT) == []
    key = page.get_by_role("cell", name="order-5120330")
    assert key.evaluate("e => e.scrollWidth - e.clientWidth") <= 1


# Every number of a table becomes one of eight digits, and every size one of three. How many?
LARGE_NUMBERS = r"""() => {
  let count = 0;
  const change = (node) => {
    for (const each of node.childNodes) {
      if (each.nodeType !== Node.TEXT_NODE) change(each);
      else each.data = each.data.replace(/[0-9][0-9.,]*( (?=[KMGT]?i?B))?/g,
        (_, size) => { count++; return size ? "999 " : "12,345,678"; });
    }
  };
  document.querySelectorAll("td.n").forEach(change);
  return count;
}"""


@pytest.mark.parametrize("path", ["/system", "/bulk-acts"])
def test_large_numbers_fit_into_tables(sick: Site, visit: Visit, path: str) -> None:
    sick.client.run(request_bulk_act("cancel", "ready", ["emails"], dry_run=True))
    page = visit(sick, path)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(path)
        # In one step, because the page refreshes itself.
        count, wrong = page.evaluate(f"() => [({LARGE_NUMBERS})(), ({STICKING_OUT})()]")
        assert count > 0
        assert wrong == [], width


def test_an_open_menu_is_inside_the_window(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues/invoices/", viewport={"width": 390, "height": 844})
    page.get_by_text("More", exact=True).click()
    box = page.get_by_role("link", name="Drop").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    assert not page.get_by_role("link", name="Drop").is_visible()
