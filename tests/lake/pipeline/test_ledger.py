"""The ledger: a step has happened, or it has not, whichever process is killed in between."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import (
    ConfigurationError,
    LakeConflictError,
    LakeError,
    LakeMismatchError,
    SchemaNewerError,
)
from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, LEDGER
from penstock.lake.storage.filesystem import LocalStorage, local_path
from penstock.lake.storage.formats import ParquetFormat
from penstock.lake.storage.ledger import CHECKPOINT_EVERY, DataFile, Entry, Ledger, State

TABLE = BRONZE_HISTORY.path


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def ledger(storage: LocalStorage) -> Ledger:
    return Ledger(storage, ParquetFormat(storage).publish)


def step(storage: LocalStorage, name: str, **more: Any) -> Entry:
    """A landing of one file, written aside."""
    path = f"{TABLE}/day=2026-01-31/queue=q/{name}.parquet"
    staged = storage.directory / f"_staging/{name}" / path
    staged.parent.mkdir(parents=True)
    staged.write_text(name)
    return Entry("land", f"_staging/{name}", (DataFile(path, 1, len(name)),), **more)


def files(storage: LocalStorage) -> list[str]:
    return sorted(Path(path).stem for path, _ in storage.data_files("bronze"))


def test_the_state_is_the_sum_of_all_steps(ledger: Ledger, storage: LocalStorage) -> None:
    names = [f"f{number:03d}" for number in range(3 * CHECKPOINT_EVERY + 3)]
    for name in names:
        ledger.commit(step(storage, name, offsets={"at": name}))
    fresh = Ledger(storage, ParquetFormat(storage).publish).state()
    assert fresh == ledger.state()
    assert (fresh.version, fresh.landed_rows, fresh.offsets) == (63, 63, {"at": "f062"})
    assert files(storage) == names
    # What is added up is not kept twice.
    assert len(storage.names(LEDGER)) <= 2 * CHECKPOINT_EVERY + 4


@pytest.mark.parametrize("content", [b"", b'{"version": 60, "fil', b"\xff\x00", b"[]", b"{}"])
def test_a_damaged_checkpoint_is_passed_over(
    ledger: Ledger, storage: LocalStorage, content: bytes
) -> None:
    for number in range(2 * CHECKPOINT_EVERY + 3):
        ledger.commit(step(storage, f"f{number}"))
    newest = sorted(storage.directory.glob(f"{LEDGER}/*.checkpoint.json"))[-1]
    newest.write_bytes(content)
    assert Ledger(storage, ParquetFormat(storage).publish).state() == ledger.state()


@pytest.mark.parametrize("content", [b"", b'{"kind": "la', b"\xff\x00", b"[]", b"{}"])
def test_a_damaged_entry_is_named(ledger: Ledger, storage: LocalStorage, content: bytes) -> None:
    for number in range(3):
        ledger.commit(step(storage, f"f{number}"))
    entry = storage.directory / LEDGER / f"{2:020d}.json"
    entry.write_bytes(content)
    with pytest.raises(LakeError, match=r"lacks entry 2|0002\.json is damaged"):
        Ledger(storage, ParquetFormat(storage).publish).state()


def test_a_lake_that_has_lost_its_ledger_is_left_alone(
    ledger: Ledger, storage: LocalStorage
) -> None:
    ledger.commit(step(storage, "one"))
    storage.remove(LEDGER)
    fresh = Ledger(storage, ParquetFormat(storage).publish)
    with pytest.raises(LakeError, match="has no entries, but its directory bronze has files"):
        fresh.state()
    with pytest.raises(LakeError, match="Restore its directory _ledger from a backup"):
        fresh.commit(step(storage, "two"))
    assert files(storage) == ["one"]


def test_a_step_that_was_decided_is_finished_by_the_next_run(storage: LocalStorage) -> None:
    def killed(state: State) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ledger(storage, killed).commit(step(storage, "one"))
    assert files(storage) == []
    after = Ledger(storage, ParquetFormat(storage).publish)
    assert after.settle().landed_rows == 1
    assert files(storage) == ["one"]
    assert not storage.names("_staging")


def test_a_step_that_was_half_moved_is_finished_too(storage: LocalStorage) -> None:
    first, second = step(storage, "one"), step(storage, "two")
    both = Entry("land", "_staging/both", first.add + second.add)
    for entry in (first, second):
        file = entry.add[0].path
        storage.move(f"{entry.staging}/{file}", f"_staging/both/{file}")

    def killed(state: State) -> None:
        entry = state.head
        assert entry is not None
        storage.move(f"{entry.staging}/{entry.add[0].path}", entry.add[0].path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ledger(storage, killed).commit(both)
    assert files(storage) == ["one"]
    Ledger(storage, ParquetFormat(storage).publish).settle()
    assert files(storage) == ["one", "two"]


def test_files_that_were_replaced_are_gone(ledger: Ledger, storage: LocalStorage) -> None:
    ledger.commit(step(storage, "old"))
    old = tuple(ledger.state().files)
    entry = step(storage, "new")
    state = ledger.commit(Entry("compact", entry.staging, entry.add, remove=old))
    assert files(storage) == ["new"]
    assert state.pending == frozenset()


def test_a_step_whose_files_another_run_replaced_does_not_happen(
    ledger: Ledger, storage: LocalStorage
) -> None:
    ledger.commit(step(storage, "old"))
    old = tuple(ledger.state().files)
    slow = Ledger(storage, ParquetFormat(storage).publish)
    ledger.commit(Entry("retain", "_staging/x", remove=old))
    entry = step(storage, "new")
    with pytest.raises(LakeConflictError, match="another run has replaced 1 of the files"):
        slow.commit(Entry("compact", entry.staging, entry.add, remove=old))
    assert files(storage) == []


def test_a_step_whose_files_another_run_removed_does_not_happen(
    ledger: Ledger, storage: LocalStorage
) -> None:
    entry = step(storage, "slow")
    storage.remove(entry.staging)
    with pytest.raises(LakeConflictError, match="removed the files of this step"):
        ledger.commit(entry)
    assert ledger.state().files == {}


def test_many_writers_each_get_their_step_in_once(storage: LocalStorage) -> None:
    def write(who: int) -> None:
        ledger = Ledger(storage, ParquetFormat(storage).publish)
        for number in range(20):
            ledger.commit(step(storage, f"w{who}-{number}"))

    writers = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    state = Ledger(storage, ParquetFormat(storage).publish).settle()
    assert (state.version, state.landed_rows, len(files(storage))) == (80, 80, 80)


def test_a_lake_is_what_it_was_made_as(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    with pytest.raises(LakeError, match="there is no lake at"):
        Lake.open(root)
    made = Lake.open_or_create(root, format="delta", name="main")
    assert Lake.open(root).about == made.about
    with pytest.raises(LakeMismatchError, match="has the format delta, not parquet"):
        Lake.open_or_create(root, format="parquet")
    with pytest.raises(LakeMismatchError, match="has the name main, not other"):
        Lake.open_or_create(root, name="other")


def test_a_lake_without_its_lake_json_is_not_created_again(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    Lake.open_or_create(root, format="parquet", name="main").begin_anew()
    Path(root, "lake.json").unlink()
    with pytest.raises(LakeError, match=r"lacks its file lake\.json"):
        Lake.open_or_create(root)
    assert not Path(root, "lake.json").exists()


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"name": 1}', b"not json", b"\xff\x00"])
def test_a_directory_with_another_lake_json_is_left_alone(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "lake.json").write_bytes(text)
    with pytest.raises(LakeError, match="does not describe a lake"):
        Lake.open_or_create(str(tmp_path))


def test_a_lake_of_a_newer_penstock_is_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    Lake.open_or_create(root)
    about = Path(root, "lake.json")
    about.write_text(about.read_text().replace('"layout_version": 1', '"layout_version": 99'))
    with pytest.raises(SchemaNewerError, match="has layout 99, this Penstock knows layouts up to"):
        Lake.open_or_create(root)


def test_addresses_of_local_lakes() -> None:
    assert local_path("/srv/lake") == Path("/srv/lake")
    assert local_path("file:///srv/my%20lake") == Path("/srv/my lake")
    assert local_path("lake") == Path.cwd() / "lake"
    assert local_path("s3a://bucket/lake") is None
    with pytest.raises(ConfigurationError, match="names another machine, host"):
        local_path("file://host/lake")
