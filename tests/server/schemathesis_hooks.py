"""What schemathesis cannot know: loaded by its command line, see test_schemathesis.py."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies as st

_FIELD = st.sampled_from(["*", "*/5", "1", "1-3", "2,4"])
_RULES = st.one_of(
    st.sampled_from(["", "@hourly", "@daily", "@weekly", "@monthly", "@yearly"]),
    st.tuples(*[_FIELD] * 5).map(" ".join),
)
schemathesis.openapi.format("cron", _RULES)
schemathesis.openapi.format("time-zone", st.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo"]))


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Nobody has the time for long polls that find nothing: they wait a second, not 20."""
    if case.operation.path == "/api/messages/dequeue" and isinstance(case.body, dict):
        seconds = case.body.get("wait_seconds")
        if isinstance(seconds, int | float) and 1 < seconds <= 20 and seconds == int(seconds):
            case.body["wait_seconds"] = 1
    # A key that was used for another call is refused. Schemathesis cannot know which were used.
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = uuid4().hex
