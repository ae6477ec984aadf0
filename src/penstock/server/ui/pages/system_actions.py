"""Actions on the whole system: maintenance, the reapers, ending a session."""

from __future__ import annotations

from typing import Final

from penstock.commands import read, write
from penstock.commands.write.idempotency import forget_expired
from penstock.commands.write.sessions import end_session
from penstock.model.monitoring import HorizonHolder
from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import count, duration
from penstock.server.ui.visits import Visit

# The number of messages that one pass ends in each table.
PIECE: Final = 1000


class Maintain(Act):
    path = "/system/maintain"

    async def ask(self, visit: Visit) -> Question:
        return Question(
            title="Run a maintenance pass",
            button="Run it",
            back="/system",
            text=[
                "Expired leases are given back, due messages become ready, and messages whose "
                "time to live is over expire (up to 1,000 of each table). Drained segments and old "
                "history are truncated, and due schedules fire. Claims do all of this anyway. This "
                "only makes it happen sooner."
            ],
        )

    async def do(self, visit: Visit) -> Deed:
        return Deed(
            command=write.maintain(full_pass=True),
            act="maintain",
            target=None,
            to="/system",
            answer_is="did",
        )


class ExpiryReaper(Act):
    path = "/system/expiry-reaper"

    async def ask(self, visit: Visit) -> Question:
        found = await visit.run(read.overdue(PIECE))
        return Question(
            title="Run the expiry reaper",
            button="Run it",
            back="/system",
            text=[
                "Messages whose time to live is over end as expired. They are no longer delivered "
                "in any case, and the reaper also runs every minute."
            ],
            count=found,
            unit="messages exceed their time to live" + (", or more" if found == PIECE else ""),
            facts={"Filter": "time to live is over", "At most": f"{count(PIECE)} of each table"},
        )

    async def do(self, visit: Visit) -> Deed:
        return Deed(
            command=write.maintain().then(lambda did: int(did["expired"])),
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
                "Expired messages are deleted from history. This scans the whole history, "
                "which takes a while if it is large."
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


class EndSession(Act):
    """Ends the session that pins the horizon: never one of Penstock, never a later transaction."""

    path = "/system/end-session"

    async def ask(self, visit: Visit) -> Question:
        holder = await self._holder(visit)
        return Question(
            title=f"End session {holder.pid}",
            button="End the session",
            back="/system",
            text=[
                "PostgreSQL closes its connection and rolls its transaction back. The work of the "
                "transaction is lost, and the application gets an error."
            ],
            facts={
                "Application": holder.application or "-",
                "User": holder.username or "-",
                "State": holder.state or "-",
                "Open for": duration(holder.age_seconds),
                "Query": (holder.query or "hidden from the server")[:500],
            },
            fields=[
                Field(name="pid", kind="hidden", value=str(holder.pid)),
                Field(name="begun", kind="hidden", value=holder.begun or ""),
            ],
            danger=True,
        )

    async def do(self, visit: Visit) -> Deed:
        holder = await self._holder(visit)
        return Deed(
            command=end_session(holder.pid or 0, holder.begun or "").then(_ended),
            act="end session",
            target=None,
            to="/system",
            details={
                "pid": holder.pid,
                "application": holder.application,
                "username": holder.username,
                "query": (holder.query or "")[:500],
            },
        )

    async def _holder(self, visit: Visit) -> HorizonHolder:
        pid, begun = visit.asked("pid"), visit.asked("begun")
        for holder in await visit.run(read.horizon()):
            if str(holder.pid) == pid and holder.begun == begun and holder.kind == "session":
                if holder.is_ours:
                    raise HttpError(409, "OwnConnection", f"session {pid} belongs to Penstock")
                return holder
        raise _gone()


def _ended(ended: bool) -> bool:
    if not ended:
        raise _gone()
    return ended


def _gone() -> HttpError:
    return HttpError(
        409, "SessionGone", "this transaction has already ended", hint="There is nothing to end."
    )


ACTS: Final = (EndSession(), Maintain(), ExpiryReaper(), DeleteReaper())
