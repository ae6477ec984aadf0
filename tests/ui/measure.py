"""How long pages take, and what they ask of the database, on much data.

    make bench-ui ARGS="[--json FILE] [--times 15] [--share 1.0]"
    python tests/ui/scale.py DSN && python tests/ui/measure.py DSN

Without a DSN, it starts its own PostgreSQL and fills it first, which takes some minutes. It
exits with status 1 if a page or a search exceeds its limit.

Each page is fetched in turn, round after round, from a server in this process; every query of the
server is timed. Prints the machine, its load, and for each page: the median and the best time of
the server, how many queries it made, and its slowest query: each query at the best of its rounds,
since what else runs on the machine makes any round slower and none faster.

First as a visitor after a long pause: everything is read again (`first`). Then as pages
are looked at one after the other, with what the server remembers for some seconds (`next`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psycopg
import uvloop

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator
from penstock.db.sync_connections import Connections
from penstock.server.auth.api_keys import new_key
from penstock.server.settings import ServerSettings
from penstock.server.transport.serving import listen, make_server, url_of

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ui import scale

# The medians that the pages and the first results of a search may take.
PAGE_MS, SEARCH_MS = 150, 500
SEARCHES = (
    "/find?q=500000&as=text",
    "/find?q=order-300000",
    "/find?q=worker-7",
    "/find?q=KeyError",
    "/find?q=nowhere+to+be+found",
)
PAGES = (
    *SEARCHES,
    "/",
    "/queues",
    "/queues?sort=ready",
    "/?range=90+d",
    "/queues/queue-007/",
    "/queues/queue-007/?range=24+h",
    "/queues/mixed/",
    "/messages",
    "/messages?state=ready&queue=queue-150",
    "/messages?state=scheduled",
    "/messages?state=leased",
    "/messages?state=dead&queue=mixed",
    "/messages?state=finished",
    "/messages?state=done&queue=queue-199",
    "/messages?state=expired",
    "/messages?error=boom",
    "/messages?key=order-3",
    "/messages?state=finished&error=nowhere",
    "/messages/{ready}",
    "/messages/{done}",
    "/dead-letters",
    "/dead-letters?queue=mixed",
    "/workers",
    "/schedules",
    "/analytics",
    "/analytics?range=6+h",
    "/analytics?range=24+h",
    "/analytics?range=90+d",
    "/analytics?range=24+h&queue=queue-007",
    "/system",
    "/activity",
    "/bulk-acts",
    "/batches",
    "/subscriptions",
    "/services",
    "/services/local",
    "/keys",
    "/runbooks",
    "/messages/bulk?act=cancel&state=ready&queue=queue-007",
    "/queues/mixed/redrive",
    "/queues/queue-007/purge",
    "/queues/queue-007/settings",
)


Round = tuple[float, dict[str, float]]


def measure(dsn: str, times: int, warm_ups: int = 1) -> dict[str, Any]:
    settings = ServerSettings(port=0, access_log="off", upkeep="off")
    listening, ready = listen(settings), threading.Event()
    server = make_server(dsn, settings, ready.set)
    thread = threading.Thread(target=lambda: uvloop.run(server.serve([listening])))
    thread.start()
    ready.wait(60)
    context = server.context
    queries = _watch(context)
    pages = [page.format(**_ids(dsn)) for page in PAGES]
    found: dict[str, dict[str, list[Round]]] = {page: {"first": [], "next": []} for page in pages}
    try:
        with (
            httpx.Client(base_url=url_of(listening), timeout=120) as http,
            psycopg.connect(dsn, autocommit=True) as db,
        ):
            http.post("/login", data={"key": _key(dsn)})
            for round in range(-warm_ups, times):
                scale.beat(db)
                for page, kind in itertools.product(pages, ("first", "next")):
                    if kind == "first":
                        context.snapshots.forget()
                        context.cache._answers.clear()
                    queries.clear()
                    started = time.perf_counter()
                    answer = http.get(page)
                    taken = (time.perf_counter() - started) * 1000
                    assert answer.status_code == 200, (page, answer.status_code)
                    if round >= 0:
                        found[page][kind].append((taken, dict(queries)))
    finally:
        server.should_exit = True
        thread.join()
    return {page: _summary(**kinds) for page, kinds in found.items()}


def _watch(context: Any) -> dict[str, float]:
    """The queries that the server makes from now on, with the longest time of each."""
    queries: dict[str, float] = {}
    run = context.database.run

    async def timed(command: Any, *arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return await run(command, *arguments)
        finally:
            taken = (time.perf_counter() - started) * 1000
            text = command.sql.strip()
            queries[text] = max(taken, queries.get(text, 0))

    context.database.run = timed
    return queries


def _summary(first: list[Round], next: list[Round]) -> dict[str, Any]:
    best: dict[str, float] = {}
    for _, queries in first:
        for text, taken in queries.items():
            best[text] = min(taken, best.get(text, taken))
    slowest = max(best, key=lambda text: best[text], default="")
    return {
        "first_median_ms": round(statistics.median(taken for taken, _ in first), 1),
        "first_best_ms": round(min(taken for taken, _ in first), 1),
        "next_median_ms": round(statistics.median(taken for taken, _ in next), 1),
        "queries": max(len(queries) for _, queries in first),
        "slowest_query_ms": round(best.get(slowest, 0), 1),
        "slowest_query": " ".join(slowest.split("\n")[-1].split())[:60]
        if slowest.startswith("--")
        else slowest[:60],
    }


def _ids(dsn: str) -> dict[str, int]:
    """A message in the middle of those that are ready, and one in the middle of history."""
    with psycopg.connect(dsn) as db:
        found = db.execute(
            "select (select id from penstock.messages where queue = 'queue-100' and state = 'ready'"
            " limit 1), (select min(id) + (max(id) - min(id)) / 2 from penstock.history_log)"
        ).fetchone()
    assert found is not None
    return {"ready": found[0], "done": found[1]}


def _key(dsn: str) -> str:
    made = new_key(f"measure-{os.getpid()}", ["admin"])
    connections = Connections(dsn, None, min_size=1, max_size=1, timeout=30, prepare_threshold=None)
    connections.run(made.command)
    connections.close()
    return made.token


def machine(dsn: str) -> dict[str, Any]:
    with psycopg.connect(dsn) as db:
        row = db.execute(
            "select version(), current_setting('shared_buffers'), "
            "(select count(*) from penstock.queue), (select count(*) from penstock.history_log), "
            "(select sum(ready + scheduled + leased + dead) from penstock.all_stats())"
        ).fetchone()
    assert row is not None
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "postgresql": row[0],
        "shared_buffers": row[1],
        "queues": row[2],
        "history_rows": row[3],
        "messages": int(row[4]),
    }


@contextmanager
def filled(share: float) -> Iterator[str]:
    """A PostgreSQL with the database that is measured, for as long as a `with` lasts."""
    with TemporaryDirectory() as home, EmbeddedPostgres.start(Path(home)) as server:
        with psycopg.connect(server.dsn, autocommit=True) as db:
            Migrator(db).up()
        scale.build(server.dsn, share, print)
        yield server.dsn


def limit_of(page: str) -> int:
    return SEARCH_MS if page in SEARCHES else PAGE_MS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dsn", nargs="?")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with filled(chosen.share) if chosen.dsn is None else nullcontext(chosen.dsn) as dsn:
        result = {"machine": machine(dsn), "pages": measure(dsn, chosen.times)}
    result["machine"]["load_after"] = os.getloadavg()[0]
    print(json.dumps(result["machine"], indent=2))
    heads = ("first_median_ms", "first_best_ms", "next_median_ms", "queries", "slowest_query_ms")
    print("".join(f"{head:>18}" for head in heads), " page")
    for page, row in result["pages"].items():
        over = "  over its limit" if row["first_median_ms"] > limit_of(page) else ""
        print("".join(f"{row[head]:18}" for head in heads), "", page + over)
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")
    pages = result["pages"]
    return int(any(row["first_median_ms"] > limit_of(page) for page, row in pages.items()))


if __name__ == "__main__":
    sys.exit(main())
