"""The queues and schedules of the demo. Each queue shows another setting."""

from __future__ import annotations

from typing import Final

from penstock.model.queue import QueueSettings, SettingsChange

ORDERS: Final = "demo-orders"
PAYMENTS: Final = "demo-payments"
SHIPMENTS: Final = "demo-shipments"
EMAILS: Final = "demo-emails"
EXPORTS: Final = "demo-exports"
NEWSLETTERS: Final = "demo-newsletters"
REPORTS: Final = "demo-reports"

# The history of a day is about 100 MB, and enough for a demo.
SETTINGS: Final = QueueSettings(keep_history=1)
QUEUES: Final[dict[str, SettingsChange]] = {
    ORDERS: {"backoff": {"kind": "exponential", "base_seconds": 2, "max_seconds": 60}},
    # The bank allows two requests at a time and five a second.
    PAYMENTS: {
        "max_attempts": 3,
        "max_in_flight": 2,
        "throughput_limit": 5,
        "backoff": {"kind": "constant", "base_seconds": 3},
    },
    SHIPMENTS: {},
    EMAILS: {"max_attempts": 4},
    EXPORTS: {"lease_seconds": 60},
    # Its messages expire until the user resumes it.
    NEWSLETTERS: {"paused": True, "message_ttl_seconds": 600},
    REPORTS: {},
}
# Orders with the same number modulo CYCLE have the same fate.
CYCLE: Final = 120

# Name: queue, rule, payload.
SCHEDULES: Final = {
    "demo-sales-every-minute": (REPORTS, "* * * * *", {"report": "sales of the last minute"}),
    "demo-stock-every-night": (REPORTS, "0 3 * * *", {"report": "stock"}),
}
