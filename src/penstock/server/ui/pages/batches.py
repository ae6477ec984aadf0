"""Batches: how many of their members have ended, and how."""

from __future__ import annotations

from typing import Final

from penstock.commands.read.batch_queries import batch_members
from penstock.commands.read.batch_queries import batches as read_batches
from penstock.commands.write.batches import cancel_batch, get_batch
from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import Act, Deed, Question
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()

MOST: Final = 100
# What the request cancels. Workers and the server cancel the others.
PIECE: Final = 10_000


@pages("/batches")
async def batches(visit: Visit) -> View:
    found = await visit.run(read_batches(MOST))
    return View("batches.html", "Batches", {"batches": found, "most": MOST})


@pages("/batches/{id}")
async def batch(visit: Visit) -> View:
    found = await visit.run(get_batch(_id(visit)))
    wanted = visit.asked_one("members", ("pending", "dead"))
    after = visit.asked_whole("after", 0, 0, 2**62)
    ids = await visit.run(
        batch_members(found.id, is_dead=wanted == "dead", after=after, count=MOST)
    )
    data = {
        "batch": found,
        "members": wanted,
        "ids": [str(id) for id in ids],
        "after": after,
        "next": ids[-1] if len(ids) == MOST else None,
    }
    return View("batch.html", f"Batch {found.id}", data)


class CancelBatch(Act):
    path = "/batches/{id}/cancel"

    async def ask(self, visit: Visit) -> Question:
        found = await visit.run(get_batch(_id(visit)))
        return Question(
            title=f"Cancel batch {found.id}",
            button="Cancel the batch",
            back="/batches",
            text=[
                "All its members that have not ended are cancelled: 10,000 at once, and the others "
                "soon after. Workers lose the leases of members that they run. Dead letters stay. "
                "Messages that follow the batch are enqueued."
            ],
            count=found.pending,
            unit="members have not ended",
        )

    async def do(self, visit: Visit) -> Deed:
        id = _id(visit)
        return Deed(
            command=cancel_batch(id, PIECE),
            act="cancel batch",
            target=None,
            to="/batches",
            details={"id": str(id)},
            after=visit.context.background.run_soon,
        )


def _id(visit: Visit) -> int:
    text = visit.path["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(404, "BatchNotFound", f"{text!r:.50} is not the id of a batch")
    return int(text)


ACTS: Final = (CancelBatch(),)
