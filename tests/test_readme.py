"""The README's and the SQL reference's examples are run as they stand."""

import re
from pathlib import Path

from penstock.errors import ERRORS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SQL = (ROOT / "docs" / "reference" / "sql.md").read_text("utf-8")


def test_the_python_example_sends_its_mail(dsn, monkeypatch, capsys):
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.splitlines()) == 8
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "sending to ada@example.com\n"


def test_the_readme_is_shorter_than_a_page() -> None:
    lines = README.splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 120


def test_three_pictures_show_the_admin_ui() -> None:
    files = {path.name: path.read_bytes() for path in (ROOT / "docs" / "images").glob("*.png")}
    page = (ROOT / "docs" / "reference" / "ui.md").read_text("utf-8")
    shown = re.findall(r"!\[.+\]\(\.\./images/(.+)\)", page)
    assert sorted(shown) == sorted(files) == ["message.png", "overview.png", "queue.png"]
    assert re.findall(r"!\[.+\]\(docs/images/(.+)\)", README) == ["overview.png"]
    assert all(content.startswith(b"\x89PNG") for content in files.values())


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


def test_every_make_command_of_the_readme_is_a_target():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^\$ make ([\w-]+)", README, re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_sqlstate_is_in_the_sql_reference():
    documented = re.findall(r"^\| `(PS\d{3})` \|", SQL, re.MULTILINE)
    states = {row.sqlstate for row in ERRORS if row.sqlstate is not None}
    assert documented == sorted(state for state in states if state.startswith("PS"))
