"""The README's and the SQL reference's examples are run as they stand."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SQL = (ROOT / "docs" / "reference" / "sql.md").read_text("utf-8")


def test_the_python_example_sends_its_mail(dsn, monkeypatch, capsys):
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "sending to ada@example.com\n"


def test_the_sql_example_enqueues_with_the_order(connect):
    (example,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    db = connect()
    db.execute("create table orders (id bigint, total numeric)")
    db.execute("select penstock.create_queue('emails')")
    before_claim, rest = example.split("select * from penstock.claim")
    db.execute(before_claim)
    (lease,) = db.execute("select id, token, payload from penstock.claim('emails', 10)").fetchall()
    assert lease[2] == {"order": 4217}
    assert "penstock.ack(id => 1, token => 32)" in rest
    db.execute("select penstock.ack(id => %s, token => %s)", lease[:2])


def test_the_examples_of_the_sql_reference_run(connect):
    examples = re.findall(r"```sql\n(.*?)```", SQL, re.DOTALL)
    assert len(examples) > 1
    db = connect()
    for example in examples:
        db.execute(example)


def test_every_function_and_view_is_in_the_sql_reference(connect):
    db = connect()
    functions = db.execute(
        "select distinct proname from pg_proc where pronamespace = 'penstock'::regnamespace"
        " and proname not like '\\_%'"
    ).fetchall()
    views = db.execute(
        "select viewname from pg_views where schemaname = 'penstock'"
        " and viewname !~ '^(ready|held)_[0-9]$'"  # of a lane, which is the engine's own
    ).fetchall()
    missing = [name for (name,) in functions if f"`{name}(" not in SQL and f", `{name}(" not in SQL]
    missing += [name for (name,) in views if f"`penstock.{name}`" not in SQL]
    assert not missing, missing


def test_every_command_of_the_readme_is_in_the_reference():
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    for command in re.findall(r"^\$ penstock (\w+)", README, re.MULTILINE):
        assert f"penstock {command}" in reference
