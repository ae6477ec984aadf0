"""The pipeline of examples/order_stream: a queue, a join, a lake table, a queue; exactly once."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "order_stream"
TUTORIAL = ROOT / "docs" / "tutorials" / "your-own-pipeline.md"


@pytest.fixture
def pipeline() -> Any:
    spec = importlib.util.spec_from_file_location("order_stream", EXAMPLE / "pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def orders(client: Any, count: int, amount: float) -> None:
    client.enqueue_many("orders", [{"customer_id": n % 4, "amount": amount} for n in range(count)])


@pytest.mark.slow
def test_every_order_is_in_the_table_once_and_thanked_once(
    pipeline: Any, spark: Any, client: Any, dsn: str, tmp_path: Path
) -> None:
    for queue in ("orders", "mail"):
        client.create_queue(queue)
    lake, customers = str(tmp_path / "lake"), str(EXAMPLE / "customers.csv")
    orders(client, 40, 150)
    client.enqueue("orders", "not an order")
    pipeline.run(spark, lake, customers, dsn=dsn)
    orders(client, 8, 20)
    # The driver was killed after both writes had all of it, and before Spark could note that.
    last = max(Path(lake, "checkpoints", "orders", "commits").glob("[0-9]*"), key=_number)
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    # A write that was killed leaves a file that is in the directory, and not in the table.
    (torn,) = list(Path(lake, "orders").glob("*.parquet"))[:1]
    shutil.copy(torn, torn.with_name("part-torn.parquet"))
    pipeline.run(spark, lake, customers, dsn=dsn)
    pipeline.run(spark, lake, customers, dsn=dsn)
    rows = spark.createDataFrame(DeltaTable(f"{lake}/orders").to_pyarrow_table()).collect()
    assert len(rows) == len({row.id for row in rows}) == 49
    assert sum(row.email is None for row in rows) == 12 + 1
    assert client.stats("orders").ready == 0
    mails = client.claim("mail", 100)
    thanked = [lease.payload["order_id"] for lease in mails]
    assert sorted(thanked) == sorted(r.id for r in rows if r.amount == 150 and r.email)
    assert {lease.priority for lease in mails} == {0, 5}


def test_the_tutorial_quotes_the_example_as_it_is() -> None:
    code = (EXAMPLE / "pipeline.py").read_text("utf-8")
    text = TUTORIAL.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    assert [block for block in blocks if block not in code] == []
    assert f"{len(code.splitlines())} lines" in text


def _number(path: Path) -> int:
    return int(path.name)
