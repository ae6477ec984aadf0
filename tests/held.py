"""What tests do to leases, wherever the engine keeps them: moved to leased_N, or held in lane_N."""

from __future__ import annotations

from typing import Any

from penstock.sql.expand import Expander

HOLD_FROM = 2
"""Claims of so many hold their messages in place here, not of 16: tests mostly claim a few."""

# A grant and its messages end at one moment. A changed row is not at the location in its token any
# longer, so its lease is lost, as if a consumer had claimed it again.
RUN_OUT = Expander().text("""
do $$
declare
  at      timestamptz := clock_timestamp() - interval '1 millisecond';
  until   bigint := {hold.time(at)};
  held_as text := 'hold = ' || until || ' | (hold & {hold.below_time})';
begin
  for slot in 0..8 loop
    execute 'update penstock.leased_' || slot || ' set lease_until = $1' using at;
    execute 'update penstock.lane_' || slot || ' set ' || held_as || ' where hold <> 0';
    execute 'update penstock.grant_' || slot || ' set lease_until = $1, ' || held_as
      using {hold.until(until)};
  end loop;
  -- Claims look for expired leases again.
  perform setval(q.sweep_register, 0) from penstock.queue q;
end $$
""")
"""Lets every lease expire, as if the time had passed."""


def hold_from(connection: Any, count: int) -> None:
    """Makes claims of this many messages and more lease them in place."""
    connection.execute(Expander(hold_from=count).file("functions/claim/claim.sql").encode())
