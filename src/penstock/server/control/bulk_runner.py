"""Carries out bulk acts. Any server may take one.

An act is a message in `penstock.bulk_acts`. A server takes steps for about a second, then gives the
message back, so that long acts and acts with a rate take turns. Each step is one transaction with
its progress, so another server continues the act of a server that died.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import psycopg

from penstock.commands.write import ack, snooze
from penstock.commands.write.bulk_acts import QUEUE, Step, fail_bulk_act, step_bulk_act
from penstock.errors import DatabaseUnavailableError, InvalidValueError, PenstockError
from penstock.model.message import Lease
from penstock.server.control.runner import Runner

TURN_SECONDS: Final = 1.0
# A full queue may have room later.
RETRY_SECONDS: Final = 5.0


class BulkRunner(Runner):
    """Claims acts and carries out some steps of each."""

    queue = QUEUE

    async def _attempt(self, lease: Lease) -> None:
        id = _act_id(lease.payload)
        try:
            step = await self._turn(id)
        except InvalidValueError:
            step = Step("failed", 0)  # not one of our messages
        except DatabaseUnavailableError:
            raise
        except (PenstockError, psycopg.Error) as error:
            step = await self._after_error(id, error)
        if step.is_last:
            await self._database.run(ack(lease))
        else:
            await self._database.run(snooze(lease, step.pause_seconds))

    async def _turn(self, id: str) -> Step:
        """Take steps until one asks for a pause, or the time is over."""
        ends_at = monotonic() + TURN_SECONDS
        while True:
            step = await self._database.run(step_bulk_act(id))
            if step.is_last or step.pause_seconds or monotonic() >= ends_at:
                return step

    async def _after_error(self, id: str, error: PenstockError | psycopg.Error) -> Step:
        if isinstance(error, PenstockError) and error.retryable:
            return Step("running", RETRY_SECONDS)
        text = error.message if isinstance(error, PenstockError) else " ".join(str(error).split())
        await self._database.run(fail_bulk_act(id, text))
        return Step("failed", 0)


def _act_id(payload: Any) -> str:
    return str(payload.get("bulk_act")) if isinstance(payload, dict) else ""
