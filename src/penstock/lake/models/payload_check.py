"""Payloads -> typed fields, or the reason why a payload does not fit its model. Runs in tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import jsonschema_rs
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DecimalType, StructType

from penstock.lake.models.conversion import converter
from penstock.lake.models.field_types import Field

_REASONS: Final = 3
_REASON_LENGTH: Final = 500


def validator(schema: dict[str, Any]) -> Any:
    """Raises ValueError for an invalid schema. References to other places are not fetched."""
    return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse)


def _refuse(address: str) -> Any:
    raise ValueError(f"{address} is not in the schema")


class PayloadCheck:
    """Pickled and sent to the tasks. `message` are the columns that pass through."""

    def __init__(self, schema: dict[str, Any], fields: Sequence[Field], message: list[str]) -> None:
        self._schema = schema
        self._fields = [(field.name, field.column, field.type) for field in fields]
        self._message = message

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of messages -> `message`, `fields` and `reason`."""
        checker = _Checker(self._schema, self._fields)
        for batch in batches:
            found = [checker.check(payload) for payload in batch.column("payload").to_pylist()]
            columns = [
                pa.array([fields and fields[number] for fields, _ in found], type=kind)
                for number, kind in enumerate(checker.arrow_types)
            ]
            names = [column for _, column, _ in self._fields]
            message = [batch.column(name) for name in self._message]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.StructArray.from_arrays(message, self._message),
                    pa.StructArray.from_arrays(columns, names),
                    pa.array([reason for _, reason in found], pa.string()),
                ],
                ["message", "fields", "reason"],
            )


class _Checker:
    def __init__(self, schema: dict[str, Any], fields: list[tuple[str, str, Any]]) -> None:
        self._validator = validator(schema)
        self._fields = [(name, converter(kind)) for name, _, kind in fields]
        self.arrow_types = [to_arrow_type(kind, timezone="UTC") for _, _, kind in fields]
        # Floats of Python have 15 digits. A decimal keeps all digits of the text.
        self._exact = any(_has_decimal(kind) for _, _, kind in fields)

    def check(self, payload: str | None) -> tuple[list[Any] | None, str | None]:
        """The values of the fields, or the reason why there are none."""
        if payload is None:
            return None, "the payload is bytes, not JSON"
        try:
            found = json.loads(payload)
            if reasons := self._reasons(found):
                return None, reasons
            if self._exact:
                found = json.loads(payload, parse_float=Decimal)
        except RecursionError:
            return None, "the payload is nested too deeply"
        except ValueError as error:
            return None, f"the payload cannot be read: {error}"[:_REASON_LENGTH]
        values = []
        for name, convert in self._fields:
            try:
                values.append(convert(found.get(name)))
            except ValueError as error:
                return None, f"$.{name}: {error}"[:_REASON_LENGTH]
        return values, None

    def _reasons(self, found: Any) -> str:
        if self._validator.is_valid(found):
            return "" if isinstance(found, dict) else "$: the payload is not an object"
        reasons = []
        for error in self._validator.iter_errors(found):
            place = "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path
            )
            reasons.append(f"${place}: {error.message}"[:_REASON_LENGTH])
            if len(reasons) == _REASONS:
                break
        return "; ".join(reasons)[: _REASONS * _REASON_LENGTH]


def _has_decimal(kind: Any) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimal(field.dataType) for field in kind.fields)
    inner = [getattr(kind, name, None) for name in ("elementType", "valueType")]
    return isinstance(kind, DecimalType) or any(_has_decimal(each) for each in inner if each)
