"""The suite notices an engine that loses messages, mixes groups up, or hands out twice."""

from __future__ import annotations

import pytest
from tests.held import hold_from

from .arena import Arena, Times
from .scenarios import SCENARIOS

TIMES = Times(rate=100, warm=0.5, window=1, fault=6, recover=20)

# One message in two hundred is dropped when it is claimed.
LOSES = """
create function penstock.sabotage() returns trigger language plpgsql as $$
begin
  return case when random() > 0.005 then new end;
end $$;
do $$
begin
  for slot in 1..8 loop
    execute format('create trigger sabotage before insert on penstock.leased_%s'
                   ' for each row execute function penstock.sabotage()', slot);
  end loop;
end $$
"""
# Groups are forgotten: their messages are handed out like others.
MIXES = """
create or replace function penstock._join_group(m penstock.envelope, due timestamptz)
returns bigint language plpgsql as $$
begin
  m.id := nextval('penstock.position');
  m.group_key := null;
  perform penstock._put_ready(m, m.id);
  return m.id;
end $$
"""
# Of one in two hundred leases, the message stays in the queue as well.
DOUBLES = """
create function penstock.sabotage() returns trigger language plpgsql as $$
begin
  if random() < 0.005 then
    perform penstock._put_ready((new.id, new.enqueued_at, null, null, null, null, new.queue_id,
      new.priority, 0, new.max_attempts, null, null, null, null, null, new.payload, null, null
    )::penstock.envelope, nextval('penstock.position'));
  end if;
  return new;
end $$;
do $$
begin
  for slot in 1..8 loop
    execute format('create trigger sabotage before insert on penstock.leased_%s'
                   ' for each row when (new.body_slot is null and new.group_key is null)'
                   ' execute function penstock.sabotage()', slot);
  end loop;
end $$
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("fault", "sabotage"),
    [("lost", LOSES), ("order_violations", MIXES), ("stale_settles", DOUBLES)],
)
def test_a_sabotaged_engine_is_found_out(fault: str, sabotage: str) -> None:
    [scenario] = [each for each in SCENARIOS if each.name == "workers_killed"]
    with Arena(TIMES, direct=True) as arena:
        with arena.server.connect() as connection:
            hold_from(connection, 10_001)  # never: the triggers are where messages move to
            connection.execute(sabotage)
        assert arena.play(scenario)[fault] > 0
