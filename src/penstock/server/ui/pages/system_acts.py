"""What operators do to the whole: the reapers, before their time."""

from __future__ import annotations

from typing import Final

from penstock import browsing, operations
from penstock.operations.idempotency import forget_expired
from penstock.server.ui.acts import Act, Deed, Question
from penstock.server.ui.formats import count
from penstock.server.ui.visits import Visit

# What one pass ends of each table.
PIECE: Final = 1000


class Maintain(Act):
    path = "/system/maintain"

    async def ask(self, visit: Visit) -> Question:
        return Question(
            title="Run a maintenance pass",
            button="Run it",
            back="/system",
            text=[
                "Leases that ran out come back, what is due becomes ready, what has outlived its "
                "time expires (up to 1,000 messages of each table), drained segments and old "
                "history are truncated, schedules fire. Claims do all of this in passing; this "
                "only makes it sooner."
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        return Deed(
            command=operations.maintain(full_pass=True),
            act="maintain",
            target=None,
            to="/system",
            answer_is="did",
        )


class ExpiryReaper(Act):
    path = "/system/expiry-reaper"

    async def ask(self, visit: Visit) -> Question:
        found = await visit.run(browsing.overdue(PIECE))
        return Question(
            title="Run the expiry reaper",
            button="Run it",
            back="/system",
            text=[
                "Messages that have outlived their time end as expired. They are not delivered "
                "any more in any case, and it runs by itself every minute."
            ],
            count=found,
            unit="messages are over their time" + (", or more" if found == PIECE else ""),
            facts={"Filter": "time to live is over", "At most": f"{count(PIECE)} of each table"},
        )

    async def do(self, visit: Visit) -> Deed:
        return Deed(
            command=operations.maintain().then(lambda did: int(did["expired"])),
            act="run expiry reaper",
            target=None,
            to="/system",
            answer_is="expired",
        )


class DeleteReaper(Act):
    path = "/system/delete-reaper"

    async def ask(self, visit: Visit) -> Question:
        return Question(
            title="Run the delete reaper",
            button="Run it",
            back="/system",
            text=[
                "What has expired is deleted from history for good. History is scanned for it, "
                "which takes a while where there is much of it."
            ],
            facts={"Filter": "history in state expired", "At most": "all of it"},
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        return Deed(
            command=forget_expired(),
            act="run delete reaper",
            target=None,
            to="/system",
            answer_is="count",
        )


ACTS: Final = (Maintain(), ExpiryReaper(), DeleteReaper())
