"""The files of a lake for the driver: on this machine, or on any file system of Hadoop.

Paths are relative to the lake's root, with `/`. Spark's tasks do not use this module. They get full
addresses from `address`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from penstock.errors import ConfigurationError, LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HIDDEN: Final = (".", "_")


class Storage(Protocol):
    """The operations of a file system that the ledger and the steps need."""

    root: str
    # Whether write_new is atomic here, so that one of two writers gets False.
    decides: bool

    def address(self, path: str) -> str:
        """The full address, for Spark."""

    def read(self, path: str) -> str | None:
        """A small text file, or None if it does not exist."""

    def write_new(self, path: str, text: str) -> bool:
        """Writes the whole file or nothing. False if it exists already."""

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted. Empty if it does not exist."""

    def data_files(self, path: str) -> Iterator[tuple[str, int]]:
        """Every data file below a directory, with its size."""

    def move(self, source: str, target: str) -> None:
        """It may be repeated: files that were moved already stay.

        Raises FileNotFoundError if the file is at neither place.
        """

    def remove(self, path: str) -> None:
        """Deletes a file, or a directory with its content, if it exists."""

    def exists(self, path: str) -> bool: ...

    def local_copy(self, path: str) -> AbstractContextManager[Path]:
        """The file on this machine, for the duration of a `with` block."""


def local_path(root: str) -> Path | None:
    """The directory of a root on this machine: `/lake`, `lake`, `file:///lake`."""
    parts = urlsplit(root)
    if parts.scheme == "":
        return Path(root).expanduser().absolute()
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise ConfigurationError(
            f"the lake's address {root} names another machine, {parts.netloc}",
            hint="Write file:///path for a directory of this machine.",
        )
    return Path(unquote(parts.path))


class LocalStorage:
    """A local directory. Files are flushed to the disk before the ledger refers to them."""

    decides = True

    def __init__(self, root: Path) -> None:
        self.directory = root
        self.root = str(root)

    def address(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> str | None:
        try:
            return (self.directory / path).read_text("utf-8")
        except FileNotFoundError:
            return None

    def write_new(self, path: str, text: str) -> bool:
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            with draft.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)  # unlike a rename, it fails if the target exists
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.directory / path))
        except FileNotFoundError:
            return []

    def data_files(self, path: str) -> Iterator[tuple[str, int]]:
        for directory, folders, files in os.walk(self.directory / path):
            folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
            for name in files:
                if not name.startswith(_HIDDEN):
                    found = Path(directory, name)
                    yield found.relative_to(self.directory).as_posix(), found.stat().st_size

    def move(self, source: str, target: str) -> None:
        origin, aim = self.directory / source, self.directory / target
        aim.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(origin, aim)
        except FileNotFoundError:
            if not aim.exists():
                raise

    def remove(self, path: str) -> None:
        target = self.directory / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        return (self.directory / path).exists()

    @contextlib.contextmanager
    def local_copy(self, path: str) -> Iterator[Path]:
        yield self.directory / path


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class HadoopStorage:
    """Any file system that Spark knows by its address, through the JVM that Spark runs in.

    Object stores have no rename that fails if the target is there: a lock in PostgreSQL
    prevents two writers instead (`decides`).
    """

    decides = False

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        try:
            self._jvm: Any = spark._jvm
            self._configuration: Any = spark._jsc.hadoopConfiguration()
        except Exception:
            raise ConfigurationError(
                f"a lake at {root} cannot be written over Spark Connect",
                hint="Run it where the Spark driver runs (spark.master), or use a local path.",
            ) from None
        try:
            self._files: Any = self._path("").getFileSystem(self._configuration)
        except Py4JJavaError as error:
            raise ConfigurationError(
                f"Spark cannot reach {root}: {error.java_exception.getMessage()}",
                hint="A file system needs its jars (spark.jars.packages) and its settings "
                "(spark.hadoop...); name a directory for a lake on this machine.",
            ) from None

    def address(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def setting(self, name: str) -> str:
        """A setting of Hadoop, including its credential providers. Empty if it is not set."""
        found = self._configuration.getPassword(name)
        return "".join(found) if found is not None else ""

    def read(self, path: str) -> str | None:
        if not self.exists(path):
            return None
        stream = self._files.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_new(self, path: str, text: str) -> bool:
        draft = f"{path.rpartition('/')[0]}/.{uuid4().hex}".lstrip("/")
        stream = self._files.create(self._path(draft), False)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()
        if not self.exists(path) and self._files.rename(self._path(draft), self._path(path)):
            return True
        self._files.delete(self._path(draft), False)
        return False

    def names(self, path: str) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(s.getPath().getName() for s in self._files.listStatus(self._path(path)))

    def data_files(self, path: str) -> Iterator[tuple[str, int]]:
        if not self.exists(path):
            return
        for status in self._files.listStatus(self._path(path)):
            name = status.getPath().getName()
            if name.startswith(_HIDDEN):
                continue
            inner = f"{path}/{name}"
            if status.isDirectory():
                yield from self.data_files(inner)
            else:
                yield inner, int(status.getLen())

    def move(self, source: str, target: str) -> None:
        origin, aim = self._path(source), self._path(target)
        if not self._files.exists(origin):
            if self._files.exists(aim):
                return
            raise FileNotFoundError(
                f"{self.address(source)} is missing, and it is not at {self.address(target)} "
                "either. Run `penstock lake repair`."
            )
        self._files.mkdirs(aim.getParent())
        with contextlib.suppress(Exception):
            # An object store had not finished a copy: the source is still complete.
            self._files.delete(aim, False)
        if not self._files.rename(origin, aim):
            raise LakeError(
                f"{self.address(source)} could not be moved to {self.address(target)}",
                hint="Check that Spark may write there, and run it again.",
            )

    def remove(self, path: str) -> None:
        self._files.delete(self._path(path), True)

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    @contextlib.contextmanager
    def local_copy(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
            copy = Path(directory, "copy")
            aim = self._jvm.org.apache.hadoop.fs.Path(copy.as_uri())
            # The last argument: without another file for checksums.
            self._files.copyToLocalFile(False, self._path(path), aim, True)
            yield copy

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.address(path))


def open_storage(root: str, spark: SparkSession | None = None) -> Storage:
    """The storage of a root. One that is not local needs a Spark session."""
    directory = local_path(root)
    if directory is not None:
        return LocalStorage(directory)
    if spark is None:
        raise ConfigurationError(
            f"{root} can be reached through Spark only",
            hint="Pass a Spark session, or name a directory of this machine.",
        )
    return HadoopStorage(spark, root)
