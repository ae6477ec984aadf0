"""The runbooks: what to do about each kind of finding."""

from __future__ import annotations

from typing import Final

from penstock.server.ui.runbooks import RUNBOOKS
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


@pages("/runbooks")
async def runbooks(visit: Visit) -> View:
    return View("runbooks.html", "Runbooks", {"runbooks": RUNBOOKS})
