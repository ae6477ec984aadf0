"""SHA-256 of data files, so that a changed byte is found even if the file can be decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.lake.storage.filesystem import Storage


def file_checksum(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def spark_checksums(
    spark: SparkSession, storage: Storage, below: str, paths: Sequence[str]
) -> dict[str, str]:
    """By path, for files that only Spark can read. All of them must be below the directory."""
    if not paths:
        return {}
    prefix = f"{below}/" if below else ""
    addresses = [storage.address(f"{prefix}{path}") for path in paths]
    rows = (
        spark.read.format("binaryFile")
        .load(addresses)
        .select("path", sf.sha2("content", 256).alias("sha256"))
        .collect()
    )
    known = frozenset(paths)
    return {_path_of(row["path"], known): row["sha256"] for row in rows}


def _path_of(address: str, known: frozenset[str]) -> str:
    """The path at the end of the address. The root may be written in another way than ours.

    File names are not sufficient: Spark gives a task's files the same name in all partitions.
    """
    parts = address.split("/")
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    return next(tail for tail in tails if tail in known)
