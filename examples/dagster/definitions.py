"""The lake as assets of Dagster: `dagster dev -f definitions.py`, or the schedule below.

Each run calls `penstock lake run --once` and then `penstock lake verify`, as programs, so Dagster
and Spark need not share an environment. PENSTOCK_COMMAND names the program if it is not on the
PATH. PENSTOCK_DSN, PENSTOCK_LAKE and PENSTOCK_LAKE_PROJECT are passed on.
"""

import json
import os
import subprocess

import dagster as dg

COMMAND = os.environ.get("PENSTOCK_COMMAND", "penstock")


def penstock(context: dg.AssetExecutionContext, *arguments: str) -> dict:
    """The JSON document that a command prints. An error of the command fails the run."""
    done = subprocess.run(
        [COMMAND, "--json", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip() or done.stdout.strip()
        raise dg.Failure(f"penstock {' '.join(arguments)}: {reason}")
    context.log.info(done.stderr or "done")
    return json.loads(done.stdout)


@dg.asset(description="Bronze, silver and gold, with all messages that have finished.")
def lake(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    totals = penstock(context, "lake", "run", "--once")
    names = ("landed_rows", "silver_rows", "published_rows", "quarantined_rows", "seconds")
    return dg.MaterializeResult(metadata={name: totals[name] for name in names})


@dg.asset_check(asset=lake, description="Every layer agrees with PostgreSQL.")
def lake_agrees(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    done = subprocess.run(
        [COMMAND, "--json", "lake", "verify"], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout) if done.returncode in (0, 9) and done.stdout else {}
    damaged = len(found.get("damaged", ()))
    return dg.AssetCheckResult(passed=bool(found.get("agrees")), metadata={"damaged": damaged})


hourly = dg.ScheduleDefinition(
    name="hourly_lake", target=dg.AssetSelection.assets(lake), cron_schedule="5 * * * *"
)
defs = dg.Definitions(assets=[lake], asset_checks=[lake_agrees], schedules=[hourly])
