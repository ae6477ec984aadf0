"""The tests of the contract that do not apply to the client for TypeScript, with the reasons.

Each is a regular expression for the name of a function, or of a function and its parameters:
`function parameters`.
"""

from __future__ import annotations

import re
from typing import Any, Final

CHECKED_BY_COMPILER: Final = "the compiler checks the types of arguments, and the server the values"
NOT_AN_ID: Final = "(-1|9223372036854775807)"
LIMITS: Final[dict[str, tuple[str, ...]]] = {
    "the API refuses text that cannot be an id or a token": (
        f"test_a_token_made_up_settles_nothing {NOT_AN_ID}-.*",
        f"test_a_message_that_never_was_is_not_found {NOT_AN_ID}",
    ),
    "over HTTP, 0 is another way to say that there is no limit": (
        "test_a_setting_out_of_range_is_refused_and_nothing_changes"
        " (message_ttl_seconds|max_depth|throughput_limit|max_in_flight)-0",
    ),
    "over HTTP, a time to live is at least a millisecond": (
        "test_an_expired_message_is_never_given_out",
    ),
    "JavaScript has one type of number, and integers above 2^53 lose digits": (
        "test_a_json_payload_comes_back_as_the_same_value_of_the_same_type"
        r" (9223372036854775808|1e\+16|10000000000000000000)",
        "test_an_integer_too_long_for_pythons_parser_is_still_read",
    ),
    "the client sends no request for an empty list": (
        "test_nothing_into_an_unknown_queue_is_still_an_error",
    ),
    "the API shows the next fires of a rule from now on only": (
        "test_the_next_fires_of_a_rule_can_be_seen_before_it_is_used",
    ),
    "schedules are called with JSON values, and JSON.stringify has a value for bytes": (
        "test_what_the_queue_would_not_take_is_refused_at_once",
    ),
    "the API does not list the leases of each worker": (
        "test_a_worker_is_named_in_the_message_and_among_the_workers",
    ),
}


def reason_to_skip(node: Any) -> str | None:
    """The reason for which a test does not apply, or None if it does."""
    parameters = node.callspec.id.split("-")
    parameters.remove("typescript")
    names = (node.originalname, f"{node.originalname} {'-'.join(parameters)}")
    for reason, patterns in LIMITS.items():
        if any(re.fullmatch(pattern, name) for pattern in patterns for name in names):
            return reason
    return None
