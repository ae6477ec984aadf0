"""Searches everything that a lake and its database store for a text, and for its hex form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Sql = Callable[..., list[Any]]
# Tables of every schema, with PostgreSQL's own: its statistics have values of the rows.
_TABLES = """
select oid::regclass::text from pg_class
where relkind in ('r', 'm') and relpersistence <> 't' and not relisshared
"""
_FOLDER = """
select current_setting('data_directory') || '/base/' || oid from pg_database
where datname = current_database()
"""


def forms(text: str) -> list[str]:
    """PostgreSQL shows bytes in hexadecimal digits."""
    return [text, text.encode().hex()]


def found_in_files(root: Path, text: str) -> list[str]:
    """Every file of a lake whose bytes, or whose decoded rows, have the text."""
    found = []
    for file in (each for each in root.rglob("*") if each.is_file()):
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += str(pq.ParquetFile(file).read().to_pylist()).encode()
        if any(form.encode() in content for form in forms(text)):
            found.append(str(file.relative_to(root)))
    return found


def found_in_tables(sql: Sql, text: str) -> set[str]:
    """Every table of the database with rows that have the text."""
    query = "select exists (select from {} t where t::text like any (%s))"
    patterns = [f"%{form}%" for form in forms(text)]
    names = [name for (name,) in sql(_TABLES)]
    assert len(names) > 100
    return {name for name in names if sql(query.format(name), patterns) == [(True,)]}


def found_in_database_files(sql: Sql, text: str) -> list[str]:
    """Every file of the database's tables and indexes with bytes of the text."""
    sql("checkpoint")
    ((folder,),) = sql(_FOLDER)
    found = []
    for file in Path(folder).iterdir():
        content = file.read_bytes()
        if any(form.encode() in content for form in forms(text)):
            found.append(file.name)
    return found
