"""JSON that the server passes to the database as text, checked for what cannot be stored."""

from __future__ import annotations

from penstock.commands.payload import check_no_nul, printed_bytes
from penstock.errors import PayloadTooLargeError


def check_json_text(text: str, limit: int, field: str) -> None:
    """Refuse NUL, and text whose numbers take more than `limit` bytes in full, as 1e131000 does."""
    check_no_nul(text, field.rpartition(".")[2], field=field)
    size = printed_bytes(text)
    if size > limit:
        raise PayloadTooLargeError(
            f"{field} has {size} bytes with its numbers written in full; {limit} are allowed",
            hint="Send large numbers as text, or store the bulk elsewhere.",
            field=field,
            size=size,
            limit=limit,
        )
