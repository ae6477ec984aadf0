"""How long each form of the benchmark does what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    concurrency: tuple[int, ...]
    usual: int
    """The concurrency of everything but the clean rows."""

    window_seconds: float
    patience_seconds: float
    """How long a window may take before it is ended as it is."""

    limit_seconds: float
    """How long one row may take, with its load, start and stop, before the peer is killed."""

    rounds: int
    rounds_1ms: int
    rate: float
    rate_seconds: float
    rate_rounds: int
    rate_pinned_rounds: int
    pins: tuple[str, ...]
    calm_rounds: int
    """Windows before the pinned ones that they are compared with, and as many after."""

    pinned_rounds: int
    kept_pairs: int
    """Of Penstock's own windows with and without a pin, one right after the other."""

    readers_rounds: int
    overload_seconds: float
    burst: int
    burst_load_seconds: float
    burst_drain_seconds: float
    scheduled: int
    scheduled_load_seconds: float
    scheduled_rounds: int
    chaos_seconds: float
    chaos_wait_seconds: float


FULL = Plan(
    concurrency=(4, 16, 64, 256),
    usual=64,
    window_seconds=1.2,
    patience_seconds=5.0,
    limit_seconds=45.0,
    rounds=4,
    rounds_1ms=1,
    rate=800,
    # A second after the warm-up, several times: in a long round, what makes the machine stop for a
    # moment decides over the p99.
    rate_seconds=2.0,
    rate_rounds=5,
    rate_pinned_rounds=5,
    pins=("reader", "xid"),
    calm_rounds=2,
    pinned_rounds=4,
    kept_pairs=16,
    readers_rounds=2,
    overload_seconds=4.0,
    burst=500_000,
    burst_load_seconds=16.0,
    burst_drain_seconds=8.0,
    scheduled=1_000_000,
    scheduled_load_seconds=35.0,
    scheduled_rounds=7,
    chaos_seconds=8.0,
    chaos_wait_seconds=12.0,
)

# About three minutes: enough to see who stands where, too little to trust the second digit.
SHORT = Plan(
    concurrency=(16, 64),
    usual=64,
    window_seconds=0.5,
    patience_seconds=2.0,
    limit_seconds=30.0,
    rounds=1,
    rounds_1ms=0,
    rate=800,
    rate_seconds=2.0,
    rate_rounds=1,
    rate_pinned_rounds=1,
    pins=("xid",),
    calm_rounds=1,
    pinned_rounds=1,
    kept_pairs=1,
    readers_rounds=0,
    overload_seconds=0.0,
    burst=0,
    burst_load_seconds=0.0,
    burst_drain_seconds=0.0,
    scheduled=20_000,
    scheduled_load_seconds=2.0,
    scheduled_rounds=1,
    chaos_seconds=0.0,
    chaos_wait_seconds=0.0,
)

# A few seconds, for the test that all of it still runs.
SMOKE = Plan(
    concurrency=(16,),
    usual=16,
    window_seconds=0.2,
    patience_seconds=60.0,
    limit_seconds=120.0,
    rounds=1,
    rounds_1ms=1,
    rate=100,
    rate_seconds=1.3,
    rate_rounds=1,
    rate_pinned_rounds=1,
    pins=("xid",),
    calm_rounds=1,
    pinned_rounds=1,
    kept_pairs=1,
    readers_rounds=1,
    overload_seconds=0.3,
    burst=500,
    burst_load_seconds=5.0,
    burst_drain_seconds=5.0,
    scheduled=500,
    scheduled_load_seconds=5.0,
    scheduled_rounds=1,
    chaos_seconds=0.0,
    chaos_wait_seconds=0.0,
)

FORMS = {"full": FULL, "short": SHORT, "smoke": SMOKE}
