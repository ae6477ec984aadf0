"""A project: typed payloads with quarantine and rules, and its own gold, exactly once."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from tests.lake.lineage_server import LineageServer
from tests.lake.pipeline.conftest import Cli
from tests.lake.searching import found_in_files, found_in_tables

from penstock.errors import InvalidValueError, LakeMismatchError, QualityError
from penstock.lake.declarations import declare
from penstock.lake.lake import Lake
from penstock.lake.layout import SILVER_QUARANTINE, LakeTable
from penstock.lake.maintenance.published import compare_published, republish
from penstock.lake.maintenance.rebuild import rebuild
from penstock.lake.maintenance.repair import repair
from penstock.lake.maintenance.verify import verify
from penstock.lake.project import Project, expression, in_range, matches, not_null
from penstock.lake.query import rows_of
from penstock.lake.run import Run, RunTotals
from penstock.spark.options import Service

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

ORDER = "id BIGINT NOT NULL, amount DECIMAL(10,2), email STRING"
RULES = [
    in_range("amount", 0, 1000),
    matches("email", "@", "count"),
    expression("known_state", "message_state IN ('done', 'dead')", "stop"),
]
Update = Callable[..., RunTotals]
WITH_ICEBERG = ["parquet", pytest.param("iceberg", marks=pytest.mark.slow)]
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "order_pipeline"
TUTORIAL = ROOT / "docs" / "tutorials" / "lake-project.md"


def revenue(orders: DataFrame) -> DataFrame:
    return orders.groupBy("day").agg(
        sf.sum("amount").cast("decimal(20,2)").alias("amount"), sf.count("*").alias("orders")
    )


def project_of(model: Any = ORDER, rules: Any = RULES, gold: bool = True) -> Project:
    project = Project()
    project.model("orders", model, rules=rules)
    if gold:
        project.gold("revenue", reads="silver_orders", publish="shop.revenue")(revenue)
        project.gold("running", reads="silver_orders", combine={"amount": "sum", "orders": "sum"})(
            revenue
        )

        @project.gold("large", reads="silver_orders", by="row", publish="shop.large")
        def large(orders: DataFrame) -> DataFrame:
            return orders.where("amount >= 100").select("day", "id", "amount", "email")

    return project


@pytest.fixture
def update(lake: Lake, registry: Any, dsn: str) -> Update:
    """Runs the lake once with a project."""

    def once(project: Project | None) -> RunTotals:
        lake.project = project
        run = Run(lake, registry, {"dsn": dsn})
        try:
            run.begin()
            return run.once()
        finally:
            run.close()

    return once


def send(client: Any, *payloads: Any) -> None:
    client.create_queue("orders", exist_ok=True)
    client.enqueue_many("orders", list(payloads))
    client.ack_many(client.claim("orders", 1000))


def order(id: int, amount: Any, **others: Any) -> dict[str, Any]:
    return {"id": id, "amount": amount, "email": "a@b.c", **others}


def table(lake: Lake, sql: str) -> list[Any]:
    return [tuple(row) for row in rows_of(lake, sql, 1000)[1]]


def agrees(lake: Lake, registry: Any, dsn: str) -> bool:
    found = verify(lake, registry, Service("local", dsn))
    assert found.agrees, [each for each in found.compared if not each.agrees] or found.damaged
    if lake.about.format == "iceberg":
        for each in lake.declared().tables().values():
            assert in_iceberg(lake, each).num_rows == lake.frame(each).count()
    return {t.path for t in lake.declared().tables().values()} <= {c.table for c in found.compared}


def in_iceberg(lake: Lake, table: LakeTable) -> Any:
    """The rows as PyIceberg reads them from the catalog."""
    return lake.format._load(table).scan().to_arrow()  # type: ignore[attr-defined]


def test_a_project_types_quarantines_and_counts_each_message_once(
    lake: Lake, client: Any, registry: Any, update: Update, sql: Any, cli: Cli, dsn: str
) -> None:
    send(client, order(1, 10.1), order(2, "x"), order(3, 5000))
    assert update(None).silver_rows == 3  # before there is a project
    send(client, order(4, 100.25), order(5, 7, email="none"), "text", order(1 << 70, 1))
    totals = update(project_of())
    assert totals.quarantined_rows == 4
    assert totals.failed_rules == {"orders": {"model": 3, "amount_range": 1, "email_matches": 1}}
    typed = "SELECT id, amount, message_failed_rules FROM silver_orders ORDER BY id"
    assert table(lake, typed) == [
        (1, Decimal("10.10"), []),
        (4, Decimal("100.25"), []),
        (5, Decimal("7.00"), ["email_matches"]),
    ]
    found = table(lake, "SELECT rule, reason FROM silver_quarantine ORDER BY id")
    assert [rule for rule, _ in found] == ["model", "amount_range", "model", "model"]
    assert found[0][1].startswith("$.amount: ")
    assert found[1][1] == "amount is not in the range from 0 to 1000"
    assert '"text" is not of type "object"' in found[2][1]
    assert found[3][1].startswith("$.id: ")

    send(client, order(6, 900), order(7, -1))
    assert update(project_of()).quarantined_rows == 1
    total = Decimal("1017.35")
    for gold in ("revenue", "running"):
        assert table(lake, f"SELECT sum(amount), sum(orders) FROM gold_{gold}") == [(total, 4)]
    assert table(lake, "SELECT id FROM gold_large ORDER BY id") == [(4,), (6,)]
    assert sql("select sum(amount), sum(orders)::int from shop.revenue") == [(total, 4)]
    assert agrees(lake, registry, dsn)

    sql("update shop.large set amount = 1 where id = 4")
    sql("insert into shop.revenue (day, amount) values ('2020-01-31', 5)")
    found = compare_published(lake, registry)
    assert [(each.table, each.differing) for each in found if not each.agrees] == [
        ("shop.revenue", ("day=2020-01-31 amount=5",)),
        (
            "shop.large",
            (f"day={found[0].day} id=4 amount=1", f"day={found[0].day} id=4 amount=100.25"),
        ),
    ]
    republish(lake, registry)
    assert all(each.agrees for each in compare_published(lake, registry))

    fixed = ("--quarantined", "--where", "rule = 'amount_range' AND reason LIKE '%1000'")
    client.create_queue("review")
    into = ("--into", "review", "--job", "j", "--yes")
    code, out, _ = cli("--json", "lake", "replay", *fixed, *into)
    assert (code, json.loads(out)["enqueued"]) == (0, 2)
    assert sorted(lease.payload["id"] for lease in client.claim("review", 10)) == [3, 7]


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["parquet", "delta", "iceberg"], indirect=True)
def test_declared_tables_are_rebuilt_and_repaired(
    lake: Lake, client: Any, registry: Any, update: Update, dsn: str, root: str
) -> None:
    send(client, order(1, 10), order(2, "x"))
    update(project_of())
    send(client, order(3, 200), order(4, 5000))
    update(project_of())
    before = {t.path: lake.frame(t).count() for t in lake.tables("silver", "gold")}
    rebuild(lake)
    assert {t.path: lake.frame(t).count() for t in lake.tables("silver", "gold")} == before
    for path in [f.path for f in lake.state().files.values() if "/orders/" in f.path][:1]:
        Path(root, path).unlink()
    Path(root, lake.state().of(SILVER_QUARANTINE)[0].path).write_bytes(b"")
    assert len(repair(lake, dsn).damaged) == 2
    assert agrees(lake, registry, dsn)


class Address(msgspec.Struct):
    city: str


class Order(msgspec.Struct):
    id: int
    amount: float | None = None
    address: Address | None = None


class NewOrder(Order):
    coupon: str | None = None


class OtherOrder(msgspec.Struct):
    id: str


@pytest.mark.slow
@pytest.mark.parametrize("lake", WITH_ICEBERG, indirect=True)
def test_a_model_grows_by_optional_fields_and_its_rules_may_stop_the_lake(
    lake: Lake, client: Any, registry: Any, update: Update, dsn: str
) -> None:
    send(client, {"id": 1, "amount": 5, "coupon": "x", "address": {"city": "Rome"}})
    update(project_of(Order, [], gold=False))
    assert table(lake, "SELECT id, address.city FROM silver_orders") == [(1, "Rome")]
    update(project_of(NewOrder, [], gold=False))
    send(client, {"id": 2})
    required = [not_null("coupon", "stop")]
    with pytest.raises(QualityError, match="1 messages of queue orders break rule coupon_not_null"):
        update(project_of(NewOrder, required, gold=False))
    assert table(lake, "SELECT id, coupon FROM silver_orders") == [(1, "x")]
    assert len(lake.state().pending) == 1
    update(project_of(NewOrder, [not_null("coupon")], gold=False))
    assert table(lake, "SELECT id FROM silver_orders") == [(1,)]
    assert table(lake, "SELECT reason FROM silver_quarantine") == [("coupon is null",)]
    update(project_of(NewOrder, [], gold=False))
    assert table(lake, "SELECT id, coupon FROM silver_orders ORDER BY 1") == [(1, "x"), (2, None)]
    assert table(lake, "SELECT * FROM silver_quarantine") == []
    assert agrees(lake, registry, dsn)
    if lake.about.format == "iceberg":
        (orders,) = lake.declared().typed()
        rows = sorted(in_iceberg(lake, orders).to_pylist(), key=lambda row: row["id"])
        found = [(row["id"], row["address"], row["coupon"]) for row in rows]
        assert found == [(1, {"city": "Rome"}, "x"), (2, None, None)]
    with pytest.raises(LakeMismatchError, match=r"changes the type of 'id' from bigint to string"):
        update(project_of(OtherOrder, [], gold=False))
    with pytest.raises(LakeMismatchError, match="the project does not declare it"):
        update(Project())
    with pytest.raises(InvalidValueError, match="rule x of queue orders cannot be used"):
        update(project_of(NewOrder, [expression("x", "nothing > 1")], gold=False))


@pytest.mark.slow
@pytest.mark.parametrize("lake", WITH_ICEBERG, indirect=True)
def test_what_is_forgotten_leaves_typed_tables_quarantine_and_own_gold(
    lake: Lake, client: Any, update: Update, cli: Cli, sql: Any, root: str, tmp_path: Path
) -> None:
    send(client, order(1, 100), order(2, 200, email="secret@x"), order(3, "secret"))
    update(project_of())
    where = ("--where", "payload LIKE '%secret%'")
    statistics = "select count(*) from pg_stats s where schemaname = 'shop' and s::text ~ 'secret'"
    sql("analyze")
    assert sql(statistics) != [(0,)]
    code, _, err = cli("lake", "forget", *where, "--yes")
    assert code == 2
    assert "Name the project with --project" in err
    file = tmp_path / "lake_project.py"
    file.write_text(PROJECT_FILE)
    code, _, err = cli("lake", "forget", *where, "--yes", "--project", tmp_path)
    assert (code, err) == (0, "")
    assert found_in_files(Path(root), "secret") == []
    assert "shop.large" not in found_in_tables(sql, "secret")
    assert sql(statistics) == [(0,)]
    assert table(lake, "SELECT id FROM silver_orders") == [(1,)]
    assert table(lake, "SELECT * FROM silver_quarantine") == []
    assert sql("select amount from shop.revenue") == [(Decimal("100.00"),)]
    code, out, err = cli("lake", "verify", "--project", tmp_path)
    assert (code, err) == (0, "")
    assert "gold/running: 1 rows in 1 days and queues, all agree with silver" in out
    file.write_text(PROJECT_FILE.replace("project_of()", "project_of(gold=False)"))
    code, _, err = cli("lake", "run", "--once", "--project", tmp_path)
    assert "`penstock lake drop-table gold/revenue` removes it" in err
    for name in ("gold/revenue", "gold/running", "gold_large"):
        assert cli("lake", "drop-table", name, "--yes")[0] == 0
    assert not Path(root, "gold/revenue").exists()
    if lake.about.format == "iceberg":
        names = sql("select table_name from penstock.iceberg_tables where table_name ~ '^gold_'")
        assert not {("gold_revenue",), ("gold_running",), ("gold_large",)} & set(names)
        assert names
    assert cli("lake", "run", "--once", "--project", tmp_path)[0] == 0
    assert [t.path for t in lake.declared().tables().values()] == ["silver/orders"]


def test_the_project_that_init_creates_works(
    lake: Lake, client: Any, cli: Cli, sql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop"
    assert cli("lake", "init", shop)[0] == 0
    assert {p.name: p.read_text() for p in shop.iterdir()} == {
        p.name: p.read_text() for p in EXAMPLE.iterdir() if p.is_file()
    }
    code, _, err = cli("lake", "init", shop)
    assert code == 2
    assert "Nothing was changed" in err
    client.create_queue("orders")
    for command in re.findall(r"^penstock (enqueue .*)$", (shop / "README.md").read_text(), re.M):
        assert cli(*shlex.split(command))[0] == 0
    runpy.run_path(str(shop / "handle_orders.py"))
    monkeypatch.setenv("PENSTOCK_LAKE_PROJECT", str(shop))
    metrics = tmp_path / "lake.prom"
    with LineageServer() as server:
        monkeypatch.setenv("OPENLINEAGE_URL", server.url)
        code, out, err = cli("lake", "run", "--once", "--metrics-file", metrics)
        assert (code, err) == (0, "")
        assert cli("lake", "run", "--once")[0] == 0  # nothing is new, so it sends no events
        assert cli("lake", "compact")[0] == 0
    jobs = {event["job"]["name"]: event for event in server.events}
    steps = ("land", "refresh", "publish", "compact")
    assert [(event["eventType"], event["job"]["name"]) for event in server.events] == [
        (kind, f"lake.test.{step}") for step in steps for kind in ("START", "COMPLETE")
    ]
    written = {each["name"] for each in jobs["lake.test.refresh"]["outputs"]}
    assert {"silver/orders", "silver/quarantine", "gold/revenue", "gold/queue_day"} <= written
    assert 'steps_total{lake="test",step="refresh",outcome="done"} 1' in metrics.read_text()
    assert "1 rows went into quarantine" in out
    assert sql("select tier, orders, amount from shop.revenue order by tier") == [
        ("gold", 1, Decimal("150.00")),
        ("silver", 1, Decimal("20.50")),
    ]
    assert table(lake, "SELECT email FROM gold_large_orders") == [("ada@example.com",)]
    assert table(lake, "SELECT count(*) FROM gold_customer_day") == [(2,)]
    ((reason,),) = table(lake, "SELECT reason FROM silver_quarantine")
    assert f"`{reason}`" in TUTORIAL.read_text()


def fails(orders: DataFrame) -> DataFrame:
    raise KeyError("tier")


def doubled(orders: DataFrame) -> DataFrame:
    return orders.select("day", "id", sf.col("amount").alias("ID"))


MISTAKES: dict[str, tuple[Callable[[Project], object], str]] = {
    "two fields": (lambda p: p.model("q", "a INT, a STRING"), "the model has two fields 'a'"),
    "no type": (
        lambda p: p.model("q", {"properties": {"a": {"x-spark-type": "money"}}}),
        "x-spark-type is 'money', which is not a type of Spark",
    ),
    "no expression": (
        lambda p: p.model("q", "a STRING", rules=[matches("a", "(")]),
        "rule a_matches of queue q cannot be used",
    ),
    "no date": (
        lambda p: p.model("q", "a DATE", rules=[in_range("a", "2026-13-01")]),
        "rule a_range of queue q cannot be used",
    ),
    "text and number": (
        lambda p: p.model("q", "a STRING", rules=[in_range("a", 1)]),
        "rule a_range compares text with a number",
    ),
    "a function that fails": (
        lambda p: p.gold("large", reads="silver_messages")(fails),
        "the function of gold table large fails: KeyError: 'tier'",
    ),
    "two columns": (
        lambda p: (p.model("q", ORDER), p.gold("large", reads="silver_q")(doubled)),
        "the result of gold table large has two columns id",
    ),
    "a sum of text": (
        lambda p: p.gold("large", reads="silver_messages", combine={"worker": "sum"})(
            lambda messages: messages.select("day", "worker")
        ),
        "cannot combine 'worker' of type string with sum",
    ),
    "a maximum of days": (
        lambda p: p.gold("large", reads="silver_messages", combine={"day": "max"})(
            lambda messages: messages.select("day", "worker")
        ),
        "cannot combine 'day' of type date with max",
    ),
    "a table of Penstock": (
        lambda p: p.gold("large", reads="silver_messages", publish="penstock.large")(fails),
        "a gold table cannot be published as 'penstock.large'",
    ),
    "one table for two": (
        lambda p: [
            p.gold(name, reads="silver_messages", publish="shop.large")(
                lambda messages: messages.select("day")
            )
            for name in ("first", "second")
        ],
        "gold tables first and second are both published as shop.large",
    ),
}


@pytest.mark.parametrize(("mistake", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_declaration_that_no_refresh_could_compute_is_refused(
    mistake: Callable[[Project], object], words: str, lake: Lake
) -> None:
    def declare_it() -> None:
        project = Project()
        mistake(project)
        declare(lake, project)

    with pytest.raises(InvalidValueError) as caught:
        declare_it()
    assert words in str(caught.value)
    assert caught.value.hint
    assert lake.state().declared == {}


def test_the_tutorial_quotes_the_project_as_it_is() -> None:
    code = (EXAMPLE / "lake_project.py").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    assert [block for block in blocks if block not in code] == []


PROJECT_FILE = """
from tests.lake.pipeline.test_project import project_of

project = project_of()
"""
