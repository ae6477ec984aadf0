"""The error tree: one table, and the way from a driver's exception to it."""

import pickle
import re
from pathlib import Path

import psycopg
import pytest

import penstock.sql
from penstock import errors
from penstock.errors import ERRORS, PenstockError, from_database_error, translated

ROOT = Path(__file__).parents[2]
SQL = Path(penstock.sql.__file__).parent


def classes(cls=PenstockError):
    yield cls
    for child in cls.__subclasses__():
        yield from classes(child)


def test_every_error_of_the_module_is_in_the_table():
    public = {
        cls for cls in classes() if cls.__module__ == errors.__name__ and cls.__name__[0] != "_"
    }
    assert public == {row.error for row in ERRORS}


def test_no_sqlstate_stands_for_two_errors():
    states = [row.sqlstate for row in ERRORS if row.sqlstate]
    assert len(set(states)) == len(states)


def test_one_call_raises_each_sqlstate():
    """A second call would be a second meaning. Errors of several functions have a function."""
    layout = (SQL / "layout" / "sqlstate.sql").read_text("utf-8")
    names = dict(re.findall(r"--: define (sqlstate\.\w+) as ('\w+')", layout))
    calls = [
        names.get(argument.strip("{}"), argument).strip("'")
        for folder in ("functions", "contracts")
        for file in (SQL / folder).rglob("*.sql")
        for argument in re.findall(r"\b_fail\(\s*([^,]+),", file.read_text("utf-8"))
    ]
    raised = sorted(state for state in calls if state.startswith("PS"))
    ours = {row.sqlstate for row in ERRORS if (row.sqlstate or "").startswith("PS")}
    assert raised == sorted(ours - {"PS006"})  # PostgreSQL finds what it cannot store


def test_the_reference_lists_every_sqlstate():
    text = (ROOT / "docs" / "reference" / "sql.md").read_text("utf-8")
    ours = [row.sqlstate for row in ERRORS if (row.sqlstate or "").startswith("PS")]
    assert re.findall(r"^\| `(PS\d+)` \|", text, re.M) == ours


def test_an_unknown_sqlstate_of_ours_is_an_error_of_penstock(connect):
    fail = "select penstock._fail('PS999', 'it happened', '{}', 'Do this.')"
    with pytest.raises(PenstockError, match=r"it happened. Do this\."), translated():
        connect().execute(fail)


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row.error.__name__)
def test_an_error_knows_its_line_of_the_table(row):
    error = row.error("what happened", hint="What to do.", queue="orders")
    assert (error.sqlstate, error.http_status, error.exit_code) == (
        row.sqlstate,
        row.http_status,
        row.exit_code,
    )
    assert str(error) == "what happened. What to do."
    assert row.error.__doc__


def test_an_error_of_the_users_own_answers_like_its_parent():
    class Mine(errors.QueueFullError):
        pass

    assert Mine("full").http_status == 429


def test_an_error_survives_the_way_to_another_process():
    error = errors.KeyConflictError("taken", hint="Use another.", queue="q", key="k", id=5)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.queue, copy.key, copy.id) == (str(error), "q", "k", 5)


def test_errors_that_are_not_ours_stay_what_they_are(connect):
    connection = connect()
    for statement in ("select 1/0", "select * from nowhere", "set statement_timeout = 'x'"):
        with pytest.raises(psycopg.Error) as caught, translated():
            connection.execute(statement)
        assert not isinstance(caught.value, PenstockError)
        assert from_database_error(caught.value) is None


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("40001", errors.TransactionConflictError),
        ("40P01", errors.TransactionConflictError),
        ("55P03", errors.TransactionConflictError),
        ("55006", errors.TransactionConflictError),
        ("25006", errors.DatabaseReadOnlyError),
        ("26000", errors.PoolerModeError),
        ("28000", errors.LoginRefusedError),
        ("53100", errors.DatabaseFullError),
        ("53300", errors.ConnectionLimitError),
        ("57014", errors.QueryCancelledError),
        ("53200", errors.DatabaseUnavailableError),
        ("53400", errors.DatabaseUnavailableError),
        ("57P03", errors.DatabaseUnavailableError),
        ("55000", None),
    ],
)
def test_a_state_of_the_database_is_told_from_a_state_of_an_object(connect, state, kind):
    statement = f"do $$ begin raise exception 'so it is' using errcode = '{state}'; end $$"
    with pytest.raises(psycopg.Error) as caught:
        connect().execute(statement)
    error = from_database_error(caught.value)
    assert (None if error is None else type(error)) == kind


def test_a_lack_of_resources_is_not_blamed_on_the_dsn(connect):
    statement = "do $$ begin raise exception 'out of memory' using errcode = '53200'{}; end $$"
    with pytest.raises(errors.DatabaseUnavailableError) as caught, translated():
        connect().execute(statement.format(""))
    assert (caught.value.hint, caught.value.retryable) == (errors.RESOURCES, True)
    with pytest.raises(errors.DatabaseUnavailableError) as caught, translated():
        connect().execute(statement.format(", hint = 'Raise max_locks_per_transaction.'"))
    assert caught.value.hint == "Raise max_locks_per_transaction."


def test_an_error_with_prose_for_its_detail_has_no_fields(connect):
    with pytest.raises(errors.QueueFullError) as caught, translated():
        connect().execute(
            "do $$ begin raise exception 'full' using errcode = 'PS008', detail = 'prose' ; end $$"
        )
    assert caught.value.max_depth is None


def test_a_user_without_rights_is_told_which_roles_there_are(connect):
    connection = connect()
    connection.execute("create role penstock_test_nobody")
    try:
        connection.execute("set role penstock_test_nobody")
        with pytest.raises(errors.PermissionDeniedError, match="penstock_producer"), translated():
            connection.execute("select penstock.create_queue('q')")
    finally:
        connection.execute("reset role")
        connection.execute("drop role penstock_test_nobody")


def test_a_lost_line_is_a_database_that_is_not_available(connect):
    victim, other = connect(), connect()
    other.execute("select pg_terminate_backend(%s, 30000)", [victim.info.backend_pid])
    with pytest.raises(errors.DatabaseUnavailableError), translated():
        victim.execute("select 1")
    with pytest.raises(errors.DatabaseUnavailableError), translated():
        victim.execute("select 1")
