"""OpenLineage events for the steps of a run, if its client is installed and configured.

The client's own settings decide where events go: OPENLINEAGE_URL, OPENLINEAGE_CONFIG, or an
openlineage.yml. A step sends its START event when it has found something to do, so a killed step
is visible, and an idle lake sends no events.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import ConfigurationError
from penstock.lake.run_steps import RunStep

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

_log = logging.getLogger("penstock.lake")
PRODUCER: Final = "https://pypi.org/project/penstock/"
POSTGRESQL: Final = "postgresql"
_FILE: Final = "openlineage.yml"
_VARIABLES: Final = frozenset({"OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"})
_TRANSPORT: Final = "OPENLINEAGE__TRANSPORT"


def is_configured() -> bool:
    """Whether the environment configures a destination of lineage events."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return False
    named = any(name in _VARIABLES or name.startswith(_TRANSPORT) for name in os.environ)
    homes = (Path.cwd(), Path.home() / ".openlineage")
    return named or any((home / _FILE).is_file() for home in homes)


def lineage_client() -> OpenLineageClient:
    try:
        from openlineage.client import OpenLineageClient
    except ModuleNotFoundError:
        raise ConfigurationError(
            "OpenLineage is configured, but its client is not installed",
            hint='Install it with: pip install "penstock[lineage]"',
        ) from None
    return OpenLineageClient()


class Lineage:
    """An observer of steps. A server that does not respond never stops the lake."""

    def __init__(self, client: OpenLineageClient, lake: str, root: str, database: str) -> None:
        """`database` is the namespace of PostgreSQL's tables, such as postgres://host:5432."""
        self._client = client
        self._lake = lake
        self._root = root if "://" in root else f"file://{root}"
        self._database = database

    def __call__(self, work: RunStep, ended: bool) -> None:
        kind = "START" if not ended else "COMPLETE" if work.error is None else "FAIL"
        try:
            self._emit(kind, datetime.now(UTC), work)
        except Exception as error:
            _log.warning("a lineage event was not sent: %s", error, extra={"step": work.name})

    def _emit(self, kind: str, at: datetime, work: RunStep) -> None:
        from openlineage.client.event_v2 import (
            InputDataset,
            Job,
            OutputDataset,
            Run,
            RunEvent,
            RunState,
        )
        from openlineage.client.facet_v2 import error_message_run, output_statistics_output_dataset

        facets: dict[str, Any] = {}
        if kind == "FAIL":
            text = f"{type(work.error).__name__}: {work.error}"
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(text, "python")
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        outputs = [
            OutputDataset(*self._dataset(name), {"outputStatistics": statistics(rowCount=rows)})
            for name, rows in sorted(work.outputs.items())
        ]
        self._client.emit(
            RunEvent(
                eventType=RunState[kind],
                eventTime=at.isoformat(),
                run=Run(str(work.id), facets),
                job=Job("penstock", f"lake.{self._lake}.{work.name}"),
                producer=PRODUCER,
                inputs=[InputDataset(*self._dataset(name)) for name in sorted(work.inputs)],
                outputs=outputs,
            )
        )

    def _dataset(self, name: str) -> tuple[str, str]:
        """Namespace and name, as OpenLineage's naming conventions have them."""
        if name.startswith(f"{POSTGRESQL}:"):
            return self._database, name.partition(":")[2]
        return self._root, name
