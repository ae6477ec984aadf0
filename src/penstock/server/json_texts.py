"""JSON that the server passes to the database as text, checked for the size that it will have."""

from __future__ import annotations

from penstock.commands.payload import printed_bytes
from penstock.errors import PayloadTooLargeError


def check_printed_size(text: str, limit: int, field: str) -> None:
    """Refuse text whose numbers take more than `limit` bytes in full, such as 1e131000."""
    size = printed_bytes(text)
    if size > limit:
        raise PayloadTooLargeError(
            f"{field} has {size} bytes with its numbers written in full; {limit} are allowed",
            hint="Send large numbers as text, or store the bulk elsewhere.",
            field=field,
            size=size,
            limit=limit,
        )
