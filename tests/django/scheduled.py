"""An application with a schedule, for tests."""

from __future__ import annotations

from penstock.django import App

app = App()


@app.schedule(cron="@daily")
@app.task(queue="orders")
def mark() -> None: ...
