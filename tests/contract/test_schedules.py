"""Schedules: made, changed, fired, held up, dropped."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.errors import (
    InvalidValueError,
    PayloadNotStorableError,
    PayloadTooLargeError,
    QueueHasSchedulesError,
    QueueNotFoundError,
    ScheduleExistsError,
    ScheduleNotFoundError,
)


@pytest.fixture
def due(connect):
    """Puts the next fire of a schedule so many minutes into the past."""

    def act(name, minutes=0):
        connect().execute(
            "update penstock.schedule set next_fire_at ="
            " date_trunc('minute', now()) - make_interval(mins => %s) where name = %s",
            [minutes, name],
        )

    return act


async def fires(client, queue="orders"):
    """When the messages of a queue were due, as their headers say."""
    found = await client.messages(queue)
    return [datetime.fromisoformat(message.headers["penstock-fire-at"]) for message in found]


async def test_a_new_schedule_has_the_defaults_and_fires_at_the_next_full_minute(client):
    before = datetime.now(UTC)
    assert await client.create_schedule("tidy", "orders", "* * * * *") is True
    found = await client.schedule("tidy")
    assert (found.name, found.queue, found.cron, found.time_zone) == (
        *("tidy", "orders", "* * * * *", "UTC"),
    )
    assert (found.payload, found.headers, found.key, found.priority) == (None, {}, None, 0)
    assert (found.missed, found.missed_after_seconds, found.paused) == ("once", 60, False)
    assert (found.last_fire_at, found.last_message_id, found.last_error) == (None, None, None)
    assert before < found.next_fire_at < before + timedelta(minutes=2)
    assert found.next_fire_at.second == 0
    assert [each.name for each in await client.schedules()] == ["tidy"]


async def test_what_is_due_is_enqueued_with_all_that_the_schedule_says(client, due):
    await client.create_schedule(
        "tidy",
        "orders",
        "0 3 * * mon",
        {"deep": [1, 2]},
        time_zone="europe/paris",
        headers={"tenant": "north"},
        key="tidy-up",
        priority=5,
        ttl_seconds=3600,
        max_attempts=2,
    )
    assert (await client.schedule("tidy")).time_zone == "Europe/Paris"
    assert (await client.fire_schedules()).count == 0
    due("tidy")
    fired = await client.fire_schedules()
    found = await client.schedule("tidy")
    assert (fired.count, fired.next_fire_at) == (1, found.next_fire_at)
    [lease] = await client.claim("orders", 5)
    assert (lease.id, lease.payload, lease.key) == (
        *(found.last_message_id, {"deep": [1, 2]}, "tidy-up"),
    )
    assert (lease.priority, lease.max_attempts) == (5, 2)
    assert lease.expires_at - lease.enqueued_at == timedelta(hours=1)
    assert lease.headers == {
        "tenant": "north",
        "penstock-schedule": "tidy",
        "penstock-fire-at": found.last_fire_at.isoformat(),
    }
    assert (await client.fire_schedules()).count == 0


async def test_a_group_goes_with_the_message(client):
    await client.create_schedule("tidy", "orders", "@daily", group="g")
    await client.fire_schedule("tidy")
    assert (await client.claim("orders"))[0].group == "g"


async def test_claims_fire_in_passing_where_no_worker_does(client, due, connect):
    await client.create_schedule("tidy", "orders", "@hourly")
    due("tidy")
    connect().execute("select setval('penstock.upkeep_at', 0), setval('penstock.tick_at', 0)")
    await client.claim("orders")
    assert len(await client.claim("orders")) == 1


async def test_maintenance_fires_too(client, due):
    await client.create_schedule("tidy", "orders", "@hourly")
    due("tidy")
    assert (await client.maintain())["schedules_fired"] == 1


@pytest.mark.parametrize(("missed", "count"), [("once", 1), ("all", 6), ("skip", 1), (None, 1)])
async def test_missed_fires_follow_the_policy(client, due, missed, count):
    await client.create_schedule("tidy", "orders", "* * * * *", missed=missed)
    due("tidy", minutes=5)
    now = datetime.now(UTC)
    fired = (await client.fire_schedules()).count
    assert fired == count or (missed == "all" and fired == 7)  # a minute may have passed
    times = await fires(client)
    assert times == sorted(set(times))
    assert len(times) == fired
    if missed == "skip":
        assert now - times[0] <= timedelta(seconds=61)
    else:
        assert now - times[0] >= timedelta(minutes=5)
    assert (await client.schedule("tidy")).next_fire_at > now


async def test_what_is_older_than_the_limit_is_skipped(client, due):
    await client.create_schedule(
        "tidy", "orders", "@yearly", missed="skip", missed_after_seconds=600
    )
    due("tidy", minutes=8)
    await client.set_schedule("tidy", cron="@yearly")  # no change: what is due stays due
    before = (await client.schedule("tidy")).next_fire_at
    # Eight minutes late is in time; but the rule did not fire in these minutes, so it is its own
    # stored time that counts.
    assert (await client.fire_schedules()).count == 1
    assert await fires(client) == [before]
    due("tidy", minutes=11)
    assert (await client.fire_schedules()).count == 0
    assert (await client.schedule("tidy")).last_fire_at == before


async def test_a_long_outage_is_made_up_for_in_pieces(client, due):
    await client.create_schedule("tidy", "orders", "* * * * *", missed="all")
    due("tidy", minutes=1200)
    assert (await client.fire_schedules()).count == 1000
    assert 200 <= (await client.fire_schedules()).count <= 203


async def test_a_paused_schedule_does_not_fire_and_makes_nothing_up(client, due):
    # Every hour, and not in the next minutes.
    rule = f"{(datetime.now(UTC).minute + 30) % 60} * * * *"
    await client.create_schedule("tidy", "orders", rule, missed="all")
    await client.pause_schedule("tidy")
    due("tidy", minutes=180)
    assert (await client.schedule("tidy")).next_fire_at is None
    assert (await client.fire_schedules()).next_fire_at is None
    assert await client.messages("orders") == []
    await client.resume_schedule("tidy")
    assert (await client.fire_schedules()).count == 0
    assert (await client.schedule("tidy")).next_fire_at > datetime.now(UTC)


async def test_an_operator_fires_by_hand_without_touching_the_rule(client):
    await client.create_schedule("tidy", "orders", "@yearly", {"by": "hand"}, paused=True)
    before = await client.schedule("tidy")
    id = await client.fire_schedule("tidy")
    assert (await client.message(id)).payload == {"by": "hand"}
    assert await client.schedule("tidy") == before


async def test_settings_change_one_by_one_and_none_is_the_default(client):
    await client.create_queue("other")
    await client.create_schedule("tidy", "orders", "@daily", 1, key="k", priority=3)
    await client.set_schedule(
        "tidy", queue="other", cron="@hourly", payload=[2], priority=None, key=None, group="g"
    )
    found = await client.schedule("tidy")
    assert (found.queue, found.cron, found.payload, found.priority) == ("other", "@hourly", [2], 0)
    assert (found.key, found.group) == (None, "g")
    assert found.updated_at > found.created_at


async def test_saying_the_same_again_leaves_a_due_fire_due(client, due):
    await client.create_schedule("tidy", "orders", "@daily", 1)
    due("tidy", minutes=1)
    before = await client.schedule("tidy")
    await client.set_schedule("tidy", cron="@daily", payload=1, time_zone="UTC", paused=False)
    assert await client.schedule("tidy") == before
    assert (await client.fire_schedules()).count == 1


async def test_a_schedule_that_is_there_is_an_error_unless_that_is_fine(client):
    await client.create_schedule("tidy", "orders", "@daily")
    with pytest.raises(ScheduleExistsError) as caught:
        await client.create_schedule("tidy", "orders", "@hourly")
    assert caught.value.schedule == "tidy"
    assert await client.create_schedule("tidy", "orders", "@hourly", exist_ok=True) is False
    assert (await client.schedule("tidy")).cron == "@daily"


async def test_a_schedule_that_is_not_there_is_named(client):
    for call in (
        lambda: client.schedule("none"),
        lambda: client.set_schedule("none", paused=True),
        lambda: client.drop_schedule("none"),
        lambda: client.pause_schedule("none"),
        lambda: client.resume_schedule("none"),
        lambda: client.fire_schedule("none"),
    ):
        with pytest.raises(ScheduleNotFoundError) as caught:
            await call()
        assert caught.value.schedule == "none"


async def test_a_dropped_schedule_leaves_its_messages(client):
    await client.create_schedule("tidy", "orders", "@daily")
    id = await client.fire_schedule("tidy")
    await client.drop_schedule("tidy")
    assert await client.schedules() == []
    assert (await client.message(id)).state == "ready"


async def test_a_queue_with_schedules_is_dropped_only_by_force(client):
    await client.create_schedule("tidy", "orders", "@daily")
    with pytest.raises(QueueHasSchedulesError, match="tidy"):
        await client.drop_queue("orders")
    await client.drop_queue("orders", force=True)
    assert await client.schedules() == []


async def test_a_full_queue_holds_a_fire_back_and_not_the_others(client, due):
    await client.create_queue("full", max_depth=1)
    await client.enqueue("full", 1)
    await client.create_schedule("stuck", "full", "@daily")
    await client.create_schedule("tidy", "orders", "@daily")
    due("stuck", minutes=2)
    due("tidy")
    assert (await client.fire_schedules()).count == 1
    assert "full" in (await client.schedule("stuck")).last_error
    await client.purge("full")
    assert (await client.fire_schedules()).count == 1
    found = await client.schedule("stuck")
    assert (found.last_error, len(await fires(client, "full"))) == (None, 1)


@pytest.mark.parametrize(
    "cron",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *"),
        *("* * * 13 *", "* * * foo *", "* * * * 8", "*/0 * * * *", "5-1 * * * *", "a b c d e"),
        *("1,,2 * * * *", "-1 * * * *", "1.5 * * * *", "* * 30 2 *", "@reboot", "x" * 2000),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_and_nothing_changes(client, cron):
    with pytest.raises(InvalidValueError) as caught:
        await client.create_schedule("tidy", "orders", cron)
    assert (caught.value.field, bool(caught.value.allowed)) == ("cron", True)
    await client.create_schedule("tidy", "orders", "@daily")
    with pytest.raises(InvalidValueError):
        await client.set_schedule("tidy", payload=5, cron=cron)
    assert (await client.schedule("tidy")).payload is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_zone", "Europe/Pariss"),
        ("time_zone", "nonsense5"),
        ("priority", 10),
        ("priority", "high"),
        ("ttl_seconds", 0),
        ("max_attempts", 0),
        ("missed", "never"),
        ("missed_after_seconds", 0),
        ("missed_after_seconds", 86401),
        ("paused", "yes"),
        ("key", ""),
        ("key", 5),
        ("group", ""),
        ("every", 5),
    ],
)
async def test_a_setting_out_of_range_is_refused(client, field, value):
    with pytest.raises(InvalidValueError):
        await client.create_schedule("tidy", "orders", "@daily", **{field: value})
    assert await client.schedules() == []


@pytest.mark.parametrize("name", ["", "Tidy", "a b", "x" * 129])
async def test_a_name_that_breaks_the_rules_is_refused(client, name):
    with pytest.raises(InvalidValueError, match="name"):
        await client.create_schedule(name, "orders", "@daily")


async def test_what_the_queue_would_not_take_is_refused_at_once(client):
    await client.create_queue("small", max_payload_bytes=100)
    with pytest.raises(PayloadTooLargeError):
        await client.create_schedule("tidy", "small", "@daily", "x" * 200)
    with pytest.raises(QueueNotFoundError):
        await client.create_schedule("tidy", "none", "@daily")
    with pytest.raises(PayloadNotStorableError):
        await client.create_schedule("tidy", "orders", "@daily", float("nan"))
    with pytest.raises(PayloadNotStorableError):
        await client.create_schedule("tidy", "orders", "@daily", headers=["a"])
    with pytest.raises(InvalidValueError, match="bytes"):
        await client.create_schedule("tidy", "orders", "@daily", b"raw")


async def test_the_next_fires_of_a_rule_can_be_seen_before_it_is_used(client):
    after = datetime(2026, 1, 30, 12, tzinfo=UTC)
    times = await client.next_fires("0 9 * * mon-fri", "Europe/Paris", 3, after=after)
    assert times == [datetime(2026, 2, day, 8, tzinfo=UTC) for day in (2, 3, 4)]
    assert await client.next_fires("* * 30 2 *") == []
    for count in (0, 1001):
        with pytest.raises(InvalidValueError):
            await client.next_fires("* * * * *", count=count)
