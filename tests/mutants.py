"""Break the engine on purpose, one way at a time, and check that a test notices: `make mutants`.

A test that cannot fail proves nothing. Each mutant is a copy of the package with one replacement in
the source of its SQL, generated again. The test named with it must fail on the copy and pass on the
original. A mutant that no longer applies fails the run, and `tests/test_mutants.py`.

`make mutants ARGS="cut short"` runs the mutants whose names contain this text. `ARGS="--part 2/6"`
runs the second of six parts, with the mutants of one test file together.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SQL = ROOT / "src" / "penstock" / "sql" / "functions"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: str
    test: str

    @property
    def node(self) -> str:
        return f"tests/{self.tests}::{self.test}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The old text, wherever its lines are broken."""
        return re.compile(r"\s+".join(map(re.escape, self.old.split())))


MUTANTS = [
    Mutant(
        "ack without the token",
        "settle/ack.sql",
        "l where l.token = ack.token and l.id = ack.id",
        "l where l.id = ack.id",
        "engine/test_leases.py",
        "test_a_token_that_never_was_settles_nothing",
    ),
    Mutant(
        "an expired lease still settles",
        "settle/ack.sql",
        "and l.lease_until > clock_timestamp()",
        "",
        "engine/test_leases.py",
        "test_a_lease_that_ran_out_settles_nothing_though_nobody_claimed_since",
    ),
    Mutant(
        "an expired held lease still settles",
        "settle/ack_many.sql",
        "and l.hold > now_is",
        "",
        "engine/test_held.py",
        "test_a_lease_that_ran_out_settles_nothing_though_nobody_took_it",
    ),
    Mutant(
        "ack of held messages without the token's time",
        "settle/ack_many.sql",
        "penstock._hold_mark(l.hold) = mark and",
        "",
        "engine/test_held.py",
        "test_the_right_id_with_another_token_settles_nothing",
    ),
    Mutant(
        "claims wait for each other",
        "claim/pick.sql",
        "limit wanted for update skip locked",
        "limit wanted for update",
        "engine/test_leases.py",
        "test_a_claim_does_not_wait_for_another_that_has_not_committed",
    ),
    Mutant(
        "claims that are alone in their transaction wait for others",
        "claim/claim.sql",
        "for update skip locked",
        "for update",
        "engine/test_leases.py",
        "test_a_claim_does_not_wait_for_another_that_has_not_committed",
    ),
    Mutant(
        "floors are taken for the truth",
        "claim/rescan.sql",
        "if lowest < {register.value(q.floors[lane])} then",
        "if false then",
        "engine/test_late.py",
        "test_corrupted_floors_hide_nothing",
    ),
    Mutant(
        "segments are freed with messages in them",
        "storage/is_drained.sql",
        "return found;",
        "return false;",
        "engine/test_ring.py",
        "test_a_segment_with_messages_is_not_truncated",
    ),
    Mutant(
        "a group hands out two messages at a time",
        "background/commit_joins.sql",
        "    if begun then",
        "    if true then",
        "engine/test_leases.py",
        "test_a_group_is_served_in_order_and_one_at_a_time",
    ),
    Mutant(
        "floors do not wait for statements whose commit is slow",
        "claim/generation.sql",
        "then pg_advisory_unlock(penstock._generation_key(generation), queue_id) else false end",
        "then pg_advisory_unlock(penstock._generation_key(generation), queue_id) else true end",
        "engine/test_commit.py",
        "test_a_slow_statement_in_autocommit_is_found",
    ),
    Mutant(
        "transaction blocks leave the floor where it is",
        "background/commit_put.sql",
        "case when {register.value(t.floor)} > at_position then setval",
        "case when false then setval",
        "engine/test_commit.py",
        "test_a_transaction_block_is_found_though_floors_had_passed_it",
    ),
    Mutant(
        "a block closes the segments whose messages it has claimed",
        "claim/in_passing.sql",
        "if sweeps and penstock._is_due('penstock.ring_check_at'",
        "if penstock._is_due('penstock.ring_check_at'",
        "engine/test_ring.py",
        "test_a_block_does_not_close_the_segment_of_messages_that_it_has_claimed",
    ),
    Mutant(
        "late blocks move the messages of one segment only",
        "background/reposition.sql",
        "foreach slot in array written loop",
        "foreach slot in array written[1:1] loop",
        "engine/test_reposition.py",
        "test_messages_of_every_segment_lane_and_savepoint_come",
    ),
    Mutant(
        "transaction blocks do not join a generation",
        "background/commit_put.sql",
        "select pg_advisory_xact_lock_shared({lock.generation} + {generation.current("
        "{register.value(t.generation_register)})}::integer, t.id)",
        "select 1",
        "engine/test_commit.py",
        "test_a_prepared_transaction_is_found",
    ),
    Mutant(
        "sweeps do not see what their own transaction has claimed",
        "claim/in_passing.sql",
        "and (penstock._alone() or pg_current_xact_id_if_assigned() is null)",
        "",
        "engine/test_commit.py",
        "test_a_claim_that_is_rolled_back_after_its_own_sweep_hides_nothing",
    ),
    Mutant(
        "max_depth forgets the messages of open transactions",
        "enqueue/depth.sql",
        "elsif depth + reserved > q.max_depth then",
        "elsif false then",
        "engine/test_producers.py",
        "test_messages_of_open_transactions_take_up_room",
    ),
    Mutant(
        "groups are locked in the order of enqueue",
        "background/commit_joins.sql",
        "select distinct g.queue_id, g.group_key from penstock.grouped g where g.position < 0"
        " and g.position <= below order by 1, 2 loop",
        "select g.queue_id, g.group_key from penstock.grouped g where g.position < 0"
        " and g.position <= below group by 1, 2 order by max(g.position) desc loop",
        "engine/test_producers.py",
        "test_transactions_that_join_groups_in_opposite_orders_do_not_deadlock",
    ),
    Mutant(
        "counts begin at the first row in every snapshot",
        "read/first_row.sql",
        "and (pg_snapshot_xmax(pg_current_snapshot()) > {first_row.xmax(seen)}"
        " or pg_snapshot_xmin(pg_current_snapshot()) >= {first_row.xmax(seen)})",
        "",
        "contracts_sql/test_counts.py",
        "test_an_old_snapshot_counts_what_was_there_when_it_was_taken",
    ),
    Mutant(
        "counts omit the messages of the transaction that counts",
        "read/first_row.sql",
        "and strpos(coalesce(current_setting('penstock.announced', true), ''),"
        " ' ' || queue_id::text || '/') = 0 then",
        "then",
        "contracts_sql/test_counts.py",
        "test_a_transaction_counts_its_own_messages",
    ),
    Mutant(
        "a commit does not lower the first row",
        "background/commit_put.sql",
        "case when {register.value(t.first_row_register)} > below"
        " then setval(t.first_row_register, below) end,",
        "",
        "contracts_sql/test_counts.py",
        "test_messages_of_a_long_transaction_are_counted_once_it_commits",
    ),
    Mutant(
        "floors stand still while another queue keeps an older segment in use",
        "claim/sweep.sql",
        "if found is not null and substr(slots, i, 1) <> current then",
        "if substr(slots, i, 1) <> current then",
        "engine/test_ring.py",
        "test_floors_rise_though_another_queue_keeps_an_older_segment_in_use",
    ),
    Mutant(
        "polls look for leases that expire by now, not by the next sweep",
        "claim/quiet.sql",
        "after, sweep_at, sweep_at) then",
        "after, started, started) then",
        "engine/test_polls.py",
        "test_the_first_poll_after_a_lease_expired_hands_the_message_out",
    ),
    Mutant(
        "polls do not notice a transaction that cuts a lease short",
        "claim/quiet.sql",
        "perform pg_advisory_xact_lock_shared({lock.quiet}, queue_id);",
        "",
        "engine/test_polls.py",
        "test_polls_beside_a_transaction_that_cuts_a_lease_short_keep_looking",
    ),
    Mutant(
        "a lease that is cut short is not looked for",
        "claim/quiet.sql",
        "perform setval(q.sweep_register, 0) from penstock.queue q"
        " where q.id = _forget_quiet.queue_id;",
        "",
        "engine/test_polls.py",
        "test_a_lease_that_is_cut_short_is_found_by_the_next_poll",
    ),
    Mutant(
        "generations that prepared transactions hold are forgotten in a crash",
        "claim/sweep.sql",
        "coalesce(pg_sequence_last_value(q.generation_register),"
        " penstock._recall_generations(q.id))",
        "{register.value(q.generation_register)}",
        "engine/test_crash.py",
        "test_a_transaction_that_was_prepared_before_a_crash_is_found",
    ),
    Mutant(
        "sweeps write to the log",
        "storage/register.sql",
        "create unlogged sequence",
        "create sequence",
        "engine/test_polls.py",
        "test_polls_that_find_nothing_take_no_transaction_ids",
    ),
    Mutant(
        "a claim keeps the locks of messages that others hold",
        "claim/pick.sql",
        "if alone or pg_relation_size('penstock.grant_{slot}', 'main') = bigint '0' then",
        "if true then",
        "engine/test_late.py",
        "test_a_claim_in_a_long_transaction_locks_nothing_that_others_hold",
    ),
    Mutant(
        "an ack deletes a member without counting it",
        "settle/ack.sql",
        "(l.key, l.group_key, l.body_slot) is null and {is_no_member(l)}",
        "(l.key, l.group_key, l.body_slot) is null",
        "tasks/test_first_members.py",
        "test_they_are_counted_when_they_are_acked",
    ),
    Mutant(
        "an ack of many deletes members leased in place without counting them",
        "settle/ack_many.sql",
        "(l.key, l.body_slot) is null and {is_no_member(l)}",
        "(l.key, l.body_slot) is null",
        "tasks/test_first_members.py",
        "test_they_are_counted_when_they_are_acked",
    ),
    Mutant(
        "an expired grant gives back messages that a later claim holds",
        "claim/pull_expired.sql",
        "and g.last_position and r.hold = g.hold and (r.key is null",
        "and g.last_position and r.hold <> 0 and (r.key is null",
        "engine/test_held.py",
        "test_an_expired_claim_gives_back_only_its_own_messages",
    ),
    Mutant(
        "a grant is deleted before all its messages came back",
        "claim/pull_expired.sql",
        "and r.position between g.first_position and g.last_position and r.hold = g.hold"
        " limit 1) s) = 0",
        "and r.position between g.first_position and g.last_position and r.hold = g.hold"
        " limit 1) s) >= 0",
        "engine/test_held.py",
        "test_a_claim_takes_over_no_more_than_it_wants",
    ),
    Mutant(
        "a segment is closed while a transaction writes to it",
        "storage/close_segments.sql",
        "and not penstock._has_writers(slot)",
        "",
        "engine/test_ring.py",
        "test_a_segment_with_an_open_enqueue_is_not_closed",
    ),
    Mutant(
        "a segment is truncated without a look under the lock",
        "storage/free_segment.sql",
        "if penstock._holds_rows(slot) then",
        "if false then",
        "engine/test_ring.py",
        "test_a_segment_with_messages_is_not_truncated",
    ),
    Mutant(
        "a run of a stream that was taken over is not fenced off",
        "spark/attach.sql",
        "where c.name = consumer and c.generation = _spark_check.generation for share",
        "where c.name = consumer for share",
        "lake/test_consumer_sql.py",
        "test_a_run_that_was_taken_over_can_do_nothing",
    ),
    Mutant(
        "producers of one key do not lock it",
        "enqueue/key.sql",
        "begin perform penstock._lock_key(q.id, m.key);",
        "begin",
        "engine/test_keys.py",
        "test_a_producer_waits_for_another_transaction_with_its_key",
    ),
    Mutant(
        "the newer message with a key yields to the older one",
        "enqueue/key.sql",
        "elsif waiting > m.id then",
        "elsif waiting < m.id then",
        "engine/test_keys.py",
        "test_a_message_that_comes_back_yields_to_a_newer_one",
    ),
    Mutant(
        "a claim hands out a message whose key another transaction has locked",
        "claim/pull_expired.sql",
        "and (l.key is null or penstock._try_key(l.queue_id, l.key, l.id))",
        "",
        "engine/test_keys.py",
        "test_a_claim_leaves_an_expired_lease_whose_key_is_locked",
    ),
    Mutant(
        "a group is delivered from its newest message",
        "claim/resolve.sql",
        "and g.position > after order by g.position limit 1",
        "and g.position > after order by g.position desc limit 1",
        "engine/test_leases.py",
        "test_a_group_is_served_in_order_and_one_at_a_time",
    ),
]


def is_stale(mutant: Mutant) -> bool:
    """Whether the source no longer contains the text that the mutant replaces."""
    return not mutant.pattern.search((SQL / mutant.file).read_text("utf-8"))


def survives(mutant: Mutant) -> bool:
    with tempfile.TemporaryDirectory() as copy:
        source = Path(copy) / "src"
        shutil.copytree(ROOT / "src", source)
        file = source / "penstock" / "sql" / "functions" / mutant.file
        text = file.read_text("utf-8")
        file.write_text(mutant.pattern.sub(lambda _: mutant.new, text), "utf-8")
        generate = [sys.executable, ROOT / "tools" / "generate_sql.py"]
        subprocess.run([*generate, "--sql", source / "penstock" / "sql"], check=True)
        done = ran([mutant.node], {"PYTHONPATH": str(source)})
    if done.returncode != 0 and " failed" not in done.stdout:
        # For example because PostgreSQL refuses a function of the copy.
        sys.exit(f"{done.stdout[-3000:]}\nno test ran on the mutant {mutant.name!r}")
    return done.returncode == 0


def ran(tests: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    workers = "0" if len(tests) == 1 else "2"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-n", workers, *tests]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if " failed" not in done.stdout and " passed" not in done.stdout:
        sys.exit(done.stdout + done.stderr)
    return done


def part_of(text: str) -> tuple[int, int]:
    """The argument of --part, such as 2/6."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 2/6")
    return int(number), int(count)


def choose(name: str, part: tuple[int, int]) -> list[Mutant]:
    """The mutants with this text in their names, of one part. Those of one test stay together."""
    named = sorted((m for m in MUTANTS if name in m.name), key=lambda mutant: mutant.node)
    number, count = part
    return named[len(named) * (number - 1) // count : len(named) * number // count]


def main() -> None:
    parser = argparse.ArgumentParser(description="Break the engine, and check that a test notices.")
    parser.add_argument("name", nargs="*", help="run mutants whose names contain this text")
    parser.add_argument("--part", type=part_of, default=(1, 1), help="run one part, such as 2/6")
    arguments = parser.parse_args()
    chosen = choose(" ".join(arguments.name), arguments.part)
    if not chosen:
        sys.exit("no mutant was chosen: run it with --part 1/1 and without a name to see all")
    if stale := [mutant.name for mutant in MUTANTS if is_stale(mutant)]:
        sys.exit(f"these mutants no longer apply: {', '.join(stale)}")
    tests = list(dict.fromkeys(mutant.node for mutant in chosen))
    if (done := ran(tests, {})).returncode != 0:
        sys.exit(f"{done.stdout[-3000:]}\nthe tests fail on the original")
    print("the original passes", flush=True)
    survivors = 0
    for mutant in chosen:
        alive = survives(mutant)
        survivors += alive
        print(f"{'SURVIVED' if alive else 'caught'}: {mutant.name}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
