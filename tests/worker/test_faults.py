"""The database fails and recovers: nothing is lost, and no worker has to be restarted."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock import AsyncClient
from penstock.worker import App, Delivery, Retry, Snooze, Worker
from penstock.worker.tracing import traced

from .conftest import until

TERMINATE = """select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name like 'penstock%'
    and pid <> pg_backend_pid()"""


async def test_every_message_is_done_though_connections_are_cut_again_and_again(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", lease_seconds=2, max_attempts=50)
    app = App()
    runs: Counter[int] = Counter()

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        runs[message.id] += 1
        await asyncio.sleep(0.002)

    ids = [await client.enqueue("work", number) for number in range(200)]
    cut = 0
    cutting = psycopg.AsyncConnection.connect(dsn, autocommit=True, application_name="cutter")
    async with await cutting as cutter, Worker(app, dsn) as worker:
        for _ in range(12):
            row = await (await cutter.execute(TERMINATE)).fetchone()
            cut += row[0] if row else 0
            so_far = len(runs)
            await until(lambda so_far=so_far: len(runs) > min(so_far, 199), "it continued")  # type: ignore[misc]

        async def all_done() -> bool:
            query = "select count(*) = 200 from penstock.history where state = 'done'"
            return await (await cutter.execute(query)).fetchone() == (True,)

        await until(all_done, "all two hundred")
        await until(lambda: worker.is_listening, "wake-ups are back")
        extra = await client.enqueue("work", "one more")
        await until(lambda: extra in runs, "it works as before")
    assert cut > 0
    assert set(ids) <= set(runs)


async def test_a_queue_that_is_dropped_and_made_again_is_served_again(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    await client.create_queue("other")
    app = App()
    seen: list[str] = []

    async def handle(message: Delivery) -> None:
        seen.append(message.payload)

    app.handler("work")(handle)
    app.handler("other")(handle)
    async with Worker(app, dsn):
        await client.drop_queue("work")
        await client.enqueue("other", "meanwhile")
        await until(lambda: "meanwhile" in seen, "the other queue is not held up")
        await client.create_queue("work")
        await client.enqueue("work", "again")
        await until(lambda: "again" in seen, "the new queue of that name")


async def test_runs_are_traced_and_linked_to_who_enqueued(dsn: str, client: AsyncClient) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._TRACER_PROVIDER = None
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace.set_tracer_provider(provider)
    try:
        await client.create_queue("work")
        app = App()
        runs: list[str] = []

        def of_the_name(name: str) -> list[ReadableSpan]:
            spans = [span for span in exporter.get_finished_spans() if span.name == name]
            return sorted(spans, key=lambda span: span.start_time or 0)

        @app.handler("work")
        async def work(message: Delivery) -> None:
            runs.append(message.payload)
            if message.payload == "fail":
                raise ValueError("no")
            if message.payload == "snooze":
                raise Snooze(60)
            if message.payload == "retry":
                raise Retry(60)

        with trace.get_tracer("test").start_as_current_span("request") as request:
            for name in ("done", "fail", "snooze", "retry"):
                await client.enqueue("work", name)
        async with Worker(app, dsn):
            await until(lambda: len(runs) == 4, "all four")
        await until(lambda: len(of_the_name("process work")) == 4, "four spans")
    finally:
        trace._TRACER_PROVIDER = None
        trace._TRACER_PROVIDER_SET_ONCE._done = False
    spans, enqueues = of_the_name("process work"), of_the_name("enqueue work")
    found = dict(zip(runs, spans, strict=True))
    assert all(span.kind is trace.SpanKind.CONSUMER for span in spans)
    assert all(span.parent is None for span in spans)
    linked = sorted(link.context.span_id for span in spans for link in span.links)
    assert linked == sorted(span.context.span_id for span in enqueues)
    assert all(span.parent == request.get_span_context() for span in enqueues)
    status = {name: span.status.status_code.name for name, span in found.items()}
    assert status == {"done": "UNSET", "fail": "ERROR", "snooze": "UNSET", "retry": "ERROR"}
    assert found["fail"].events[0].name == "exception"
    assert (found["done"].attributes or {})["messaging.destination.name"] == "work"


async def test_without_a_tracer_provider_a_handler_is_called_as_it_is() -> None:
    async def call(delivery: Delivery) -> None:
        pass

    assert traced("work", call) is call
