"""Any JSON value goes through jsonb and back unchanged."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.commands.payload import decode_json, encode_json

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@pytest.fixture
def through_jsonb(connect):
    """Puts JSON text into a jsonb of the server's and takes it out again."""
    connection = connect()
    return lambda text: connection.execute("select %s::jsonb::text", [text]).fetchone()[0]


def same(one, other):
    """Equal, and of the same types: 1 is not 1.0, nor True."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(VALUES, max_size=20))
def test_a_value_comes_back_from_jsonb_as_it_went_in(through_jsonb, values):
    assert same(decode_json(through_jsonb(encode_json(values, "payload"))), values)


@given(VALUES)
def test_what_is_sent_is_json_that_anyone_can_read(value):
    assert same(json.loads(encode_json(value, "payload")), value)


def test_the_one_thing_that_jsonb_does_not_keep_is_the_sign_of_zero(through_jsonb):
    assert math.copysign(1, decode_json(through_jsonb("-0.0"))) == 1


@pytest.mark.parametrize(
    ("open_", "close"),
    [("[", "]"), ('{"a": 1, "b": ', "}"), ('[-1.5, "x\\"]", {"k": ', ', "z": []}]')],
)
def test_reads_what_sql_nested_deeper_than_python_goes(open_: str, close: str) -> None:
    depth = 3000
    value = decode_json(open_ * depth + '{"end": [true, null, 10]}' + close * depth)

    for _ in range(depth):
        match value:
            case [-1.5, 'x"]', {"k": inner, "z": []}] | {"a": 1, "b": inner} | [inner]:
                value = inner
            case _:
                pytest.fail(f"read {value!s:.100}")
    assert value == {"end": [True, None, 10]}
