"""Checks the registered services periodically. Any server may take a check.

A service that cannot be reached is checked more often. Its tasks wait until it is reached again, or
fail together after PENSTOCK_SERVICE_WAIT_SECONDS: see `report_service`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.commands.write.services import (
    adopt_queues,
    claim_service_checks,
    report_service,
    set_service_address,
)
from penstock.errors import PenstockError
from penstock.model.service import Service, ServiceCheck, TaskOrder
from penstock.server.control.addresses import DEFAULT, ServiceAddress
from penstock.server.control.service_check import CheckResult, check_service, error_text
from penstock.server.control.targets import Targets

log: Final = logging.getLogger("penstock.server")
LOOK_SECONDS: Final = 1.0
# The interval between checks of a service, and of one that cannot be reached.
REACHED_SECONDS: Final = 15.0
DOWN_SECONDS: Final = 2.0
# The time after which another server takes over the check of a server that died.
CLAIM_SECONDS: Final = 10
# How long a read waits for the queues of a service that was reached at the last check.
READ_SECONDS: Final = 1.0


class ServiceMonitor:
    """Checks services from `start` to `stop`, and when a caller asks."""

    def __init__(self, targets: Targets, wait_seconds: int | None) -> None:
        self.targets = targets
        self.wait_seconds = wait_seconds
        self._home = targets.home
        self._loop: asyncio.Task[None] | None = None
        # The latest check of each service that is under way, and all of them.
        self._checking: dict[str, asyncio.Task[CheckResult | None]] = {}
        self._tasks: set[asyncio.Task[CheckResult | None]] = set()

    def start(self) -> None:
        self._loop = asyncio.create_task(self._work(), name="penstock services")

    async def stop(self) -> None:
        tasks = [*([] if self._loop is None else [self._loop]), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def refresh(self, service: Service) -> None:
        """Check a service for a read, and wait a moment for the result.

        A service that could not be reached the last time is not waited for.
        """
        checking = self.begin(service.id)
        if not service.is_down:
            await asyncio.wait({checking}, timeout=READ_SECONDS)

    async def check(self, service_id: str) -> CheckResult | None:
        """Check a service now. None if it no longer exists."""
        return await asyncio.shield(self.begin(service_id))

    async def changed(
        self, service_id: str, address: ServiceAddress, tested: CheckResult | None
    ) -> None:
        """Report the test of a new address, or check it now if it was not tested.

        A check that is under way may have begun with the old address, so it is not joined.
        """
        due = await self._home.run(claim_service_checks(CLAIM_SECONDS, service_id))
        if not due:
            return
        found = ServiceAddress(due[0].dsn, due[0].secret, due[0].password_file)
        is_tested = tested is not None and found == address  # it may have changed again
        checking = self._report(due[0], tested) if tested and is_tested else self._check(due[0])
        task = asyncio.create_task(checking)
        self._track(service_id, task)
        await asyncio.shield(task)

    def begin(self, service_id: str) -> asyncio.Task[CheckResult | None]:
        """Concurrent requests for a check of one service share it."""
        checking = self._checking.get(service_id)
        if checking is None:
            checking = asyncio.create_task(self._check_by_id(service_id))
            self._track(service_id, checking)
        return checking

    def _track(self, service_id: str, checking: asyncio.Task[CheckResult | None]) -> None:
        self._checking[service_id] = checking
        self._tasks.add(checking)

        def ended(task: asyncio.Task[CheckResult | None]) -> None:
            self._tasks.discard(task)
            if self._checking.get(service_id) is task:
                del self._checking[service_id]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("a service was not checked: %s", error)

        checking.add_done_callback(ended)

    async def _work(self) -> None:
        while True:
            with suppress(PenstockError, psycopg.Error):
                for due in await self._home.run(claim_service_checks(CLAIM_SECONDS)):
                    if due.id not in self._checking:
                        self._track(due.id, asyncio.create_task(self._check(due)))
            await asyncio.sleep(LOOK_SECONDS)

    async def _check_by_id(self, service_id: str) -> CheckResult | None:
        found = await self._home.run(claim_service_checks(CLAIM_SECONDS, service_id))
        return await self._check(found[0]) if found else None

    async def _check(self, due: ServiceCheck) -> CheckResult:
        address = ServiceAddress(due.dsn, due.secret, due.password_file)
        started = monotonic()

        def now() -> datetime:
            return due.asked_at + timedelta(seconds=monotonic() - started)

        try:
            conninfo = self.targets.conninfo(address, DEFAULT)
        except PenstockError as error:
            result = CheckResult(None, error_text(error))
        else:
            result = await check_service(conninfo, now)
            if result.error is not None:
                self.targets.forget(conninfo)
        return await self._report(due, result)

    async def _report(self, due: ServiceCheck, result: CheckResult) -> CheckResult:
        await self._home.run(
            report_service(
                due.id,
                due.address_version,
                None if result.state is None else result.state.document(),
                result.error,
                check_seconds=REACHED_SECONDS if result.error is None else DOWN_SECONDS,
                wait_seconds=self.wait_seconds,
            )
        )
        if result.queues is not None:
            name = ServiceAddress(due.dsn).database_name
            await self._home.run(adopt_queues(due.id, name, result.queues, due.asked_at))
        await self._seal(due)
        return result

    async def _seal(self, due: ServiceCheck) -> None:
        """Encrypt a password that was stored before there was a key."""
        addresses = self.targets.addresses
        if not addresses.box.has_key or not conninfo_to_dict(due.dsn).get("password"):
            return
        sealed = addresses.stored(due.dsn)
        change = set_service_address(due.id, sealed.dsn, secret=sealed.secret)
        async with self._home.transaction() as connection:
            # It locks the row, so that an address which was changed meanwhile stays.
            locked = await self._home.run(claim_service_checks(CLAIM_SECONDS, due.id), connection)
            if [each.address_version for each in locked] == [due.address_version]:
                await self._home.run(change, connection)


def task_address(order: TaskOrder) -> ServiceAddress | None:
    """The address of the service of a task. None for the server's own database."""
    if order.dsn is None:
        return None
    return ServiceAddress(order.dsn, order.secret, order.password_file)
