"""`bench wal`: what a message costs in WAL, and in bytes on disk while it waits."""

import base64
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock_benchmarks import wire
from penstock_benchmarks.driver import PAYLOAD_BYTES, Step, enqueue_step
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, bytes_text, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, Disk, Scratch
from penstock_benchmarks.session import Session, System

QUEUE = "bench-wal"
QUEUES = {QUEUE: HISTORY_OFF}
FULL_SECONDS = 30.0
LARGE_BYTES = 64 * 1024

_ROUNDS = 2
_LOAD_COUNT = 10_000
# Well below max_wal_size, so that no checkpoint falls into a block and adds its page images.
_MOST_PAYLOAD_BYTES = 64 * 2**20
_METHOD = (
    "WAL: how far pg_current_wal_insert_lsn moves over whole cycles of {batch} (enqueue, claim, "
    "ack), divided by the messages settled; one client, history off; blocks of both systems in "
    "the order A B B A, each after a checkpoint, if the user may, and a warm-up. After a block the "
    "plain table is vacuumed and Penstock maintained, which is shown separately. LSNs count the "
    "whole server, so anything else that writes is in them. The 64 KiB payload is JSON whose text "
    "is random bytes in base64, which neither pglz nor lz4 makes any smaller. Disk: how much heap "
    "(with TOAST) and indexes grow for each of {messages:,} messages of 200 bytes that are ready."
)


@dataclass(frozen=True)
class Block:
    """Whole cycles, and what they wrote."""

    system: System
    payload_bytes: int
    messages: int
    wal_bytes: int
    tidy_wal_bytes: int
    page_images: int
    checkpoint_first: bool

    def as_json(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "wal_bytes_per_message": round(self.wal_bytes / max(self.messages, 1), 1),
        }


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    sizes = (PAYLOAD_BYTES, LARGE_BYTES)
    seconds = (options.seconds or FULL_SECONDS) / (_ROUNDS * len(sizes) * len(System))
    progress.plan(_ROUNDS * len(sizes) * len(System) + len(System))
    disk = {}
    for system in System:
        progress.say(f"storing {options.messages:,} messages, {system}")
        disk[system] = _stored(place, system, options.messages)
        progress.step()
    blocks = []
    for size in sizes:
        for number in range(_ROUNDS):
            for system in list(System) if number % 2 == 0 else list(reversed(System)):
                progress.say(f"cycles of {size:,} bytes, {system}")
                blocks.append(_block(place, system, size, options.batch, seconds))
                progress.step()
    return _findings(options, blocks, disk)


def _stored(place: Scratch, system: System, messages: int) -> Disk:
    """How much the system grows while it takes in this many messages."""
    before = place.disk(system)
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    for done in range(0, messages, _LOAD_COUNT):
        count = min(_LOAD_COUNT, messages - done)
        place.run(f"{system}.load_ready", queue=QUEUE, payload=payload, count=count)
    after = place.disk(system)
    place.purge(system, QUEUE)
    return Disk(after.heap - before.heap, after.index - before.index)


def _block(place: Scratch, system: System, size: int, batch: int, seconds: float) -> Block:
    session = place.sessions[system]
    enqueue = enqueue_step(session, QUEUE, [_payload(size) for _ in range(batch)])
    checkpoint = place.checkpoint()
    _cycles(session, enqueue, batch, seconds * 0.2, _MOST_PAYLOAD_BYTES // size // 5)
    images, position = _images(place, session), place.run("wal_position")
    messages = _cycles(session, enqueue, batch, seconds * 0.8, _MOST_PAYLOAD_BYTES // size)
    end = place.run("wal_position")
    images = _images(place, session) - images
    place.drain(system, QUEUE)
    # Now, or autovacuum would do it in the middle of the other system's block.
    before = place.run("wal_position")
    place.tidy(system)
    tidied = place.run("wal_position") - before
    return Block(system, size, messages, end - position, tidied, images, checkpoint)


def _payload(size: int) -> bytes:
    """JSON of this many bytes: the usual one, or one that does not compress."""
    if size <= PAYLOAD_BYTES:
        return wire.json_payload(size)
    frame = b'{"body": "%s"}'
    return frame % base64.b64encode(os.urandom(size))[: size - len(frame) + 2]


def _cycles(session: Session, enqueue: Step, batch: int, seconds: float, most: int) -> int:
    """At least one cycle, until the time is up or `most` messages have passed."""
    queue, count, settled = QUEUE.encode(), wire.int4(batch), 0
    until = time.monotonic() + seconds
    while True:
        enqueue()
        settled += session.ack(session.claim(queue, count))
        if settled >= most or time.monotonic() >= until:
            return settled


def _images(place: Scratch, session: Session) -> int:
    session.flush_statistics()
    return int(place.run("wal_images"))


def _findings(options: Options, blocks: list[Block], disk: dict[System, Disk]) -> Findings:
    small = {system: _wal_per_message(blocks, system, PAYLOAD_BYTES) for system in System}
    large = {system: _wal_per_message(blocks, system, LARGE_BYTES) for system in System}
    stored = {system: disk[system].total / options.messages for system in System}
    figures: Figures = {
        "wal_bytes": small[System.PENSTOCK],
        "plain_wal_bytes": small[System.PLAIN],
        "disk_bytes": stored[System.PENSTOCK],
        "plain_disk_bytes": stored[System.PLAIN],
        "wal_64k_over_payload": large[System.PENSTOCK] / LARGE_BYTES,
        "plain_wal_64k_over_payload": large[System.PLAIN] / LARGE_BYTES,
    }
    heap, index = (
        {s: part(disk[s]) / options.messages for s in System} for part in (_heap, _index)
    )
    tidy = {system: _tidy_per_message(blocks, system) for system in System}
    rows = [
        _row("WAL of a cycle, 200 bytes", small),
        _row("  vacuum or upkeep after it", tidy),
        _row("WAL of a cycle, 64 KiB", large),
        _row("  / payload", {system: large[system] / LARGE_BYTES for system in System}, ratio_text),
        _row("heap of a message, 200 bytes", heap),
        _row("indexes of a message, 200 bytes", index),
    ]
    samples = {
        "blocks": [block.as_json() for block in blocks],
        "stored_bytes": {system: disk[system].__dict__ for system in System},
    }
    method = _METHOD.format(batch=options.batch, messages=options.messages)
    return Findings(method, figures, rows, _notes(blocks), samples)


def _heap(disk: Disk) -> int:
    return disk.heap


def _index(disk: Disk) -> int:
    return disk.index


def _wal_per_message(blocks: list[Block], system: System, size: int) -> float:
    """Totals, not medians: what is written now and then belongs to every message."""
    chosen = [b for b in blocks if b.system is system and b.payload_bytes == size]
    return sum(b.wal_bytes for b in chosen) / max(1, sum(b.messages for b in chosen))


def _tidy_per_message(blocks: list[Block], system: System) -> float:
    chosen = [b for b in blocks if b.system is system and b.payload_bytes == PAYLOAD_BYTES]
    return sum(b.tidy_wal_bytes for b in chosen) / max(1, sum(b.messages for b in chosen))


def _row(what: str, values: dict[System, float], text: Callable[[float], str] = bytes_text) -> Row:
    ours, plain = values[System.PENSTOCK], values[System.PLAIN]
    return Row(what, text(ours), text(plain), ratio_text(ours / plain if plain else None))


def _notes(blocks: list[Block]) -> list[str]:
    notes = []
    if not all(block.checkpoint_first for block in blocks):
        notes.append("this user may not CHECKPOINT: page images may be in the WAL bytes")
    images = {s: sum(b.page_images for b in blocks if b.system is s) for s in System}
    if any(images.values()):
        notes.append(
            "full-page images within the measured blocks: "
            + ", ".join(f"{count:,} ({system})" for system, count in images.items())
        )
    return notes
