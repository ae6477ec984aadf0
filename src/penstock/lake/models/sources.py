"""Declarations of users -> JSON Schema: Spark DDL, JSON Schema itself, or a Python class.

The lake stores the JSON Schema, so a rebuild needs neither the class nor its package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from penstock.errors import ConfigurationError, InvalidValueError
from penstock.lake.models.field_types import SPARK_TYPE
from penstock.lake.models.payload_check import validator

_BITS: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 8,
    spark.ShortType: 16,
    spark.IntegerType: 32,
    spark.LongType: 64,
}
_LOCAL_TIME: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_PLAIN: Final[dict[type[spark.DataType], dict[str, Any]]] = {
    spark.BinaryType: {"type": "string", "contentEncoding": "base64"},
    spark.BooleanType: {"type": "boolean"},
    spark.DateType: {"type": "string", "format": "date"},
    spark.DoubleType: {"type": "number"},
    spark.FloatType: {"type": "number"},
    spark.StringType: {"type": "string"},
    spark.TimestampType: {"type": "string", "format": "date-time"},
    spark.TimestampNTZType: {"type": "string", "pattern": _LOCAL_TIME},
}

Declaration = str | Path | Mapping[str, Any] | spark.StructType | type


def json_schema(declared: Declaration) -> dict[str, Any]:
    """The JSON Schema of a model, checked."""
    schema = _read(declared)
    try:
        validator(schema)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise InvalidValueError(
            f"the model is not a JSON Schema: {error}",
            hint="Correct it as https://json-schema.org describes, or declare the columns in Spark "
            "DDL.",
            field="model",
        ) from None
    return schema


def _read(declared: Declaration) -> dict[str, Any]:
    if isinstance(declared, Path):
        return _from_file(declared)
    if isinstance(declared, str):
        return _from_ddl(declared)
    if isinstance(declared, spark.StructType):
        return _object(declared)
    if isinstance(declared, Mapping):
        return json.loads(json.dumps(declared))  # type: ignore[no-any-return]
    return _from_class(declared)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the JSON Schema in {path} cannot be read: {error}",
            hint="Name a file with one JSON document that this user may read.",
        ) from None
    return dict(found) if isinstance(found, dict) else {}


def _from_ddl(ddl: str) -> dict[str, Any]:
    try:
        parsed = spark.StructType([*spark.StructType.fromDDL(ddl)])  # type: ignore[misc]
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidValueError(
            f"the model is not a list of columns in Spark DDL: {reason}",
            hint="Write it like this: id BIGINT NOT NULL, amount DECIMAL(10,2), note STRING",
            field="model",
        ) from None
    return _object(parsed)


def _from_class(declared: Any) -> dict[str, Any]:
    if hasattr(declared, "model_json_schema"):
        return dict(declared.model_json_schema())  # pydantic
    try:
        import msgspec
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"the model {declared!r} needs msgspec",
            hint='Install it with: pip install "penstock[tasks]"',
        ) from None
    try:
        return dict(msgspec.json.schema(declared))
    except TypeError as error:
        raise InvalidValueError(
            f"the model {declared!r} is not a class that has a JSON Schema: {error}",
            hint="Use Spark DDL, a JSON Schema, a pydantic model, a msgspec Struct or a dataclass.",
            field="model",
        ) from None


def _object(struct: spark.StructType) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in struct.fields:
        if field.name in properties:
            raise InvalidValueError(
                f"the model has two fields {field.name!r}",
                hint="Rename one of the fields.",
                field="model",
            )
        inner = _schema(field.dataType)
        chosen = _or_null(inner) if field.nullable else inner
        properties[field.name] = {**chosen, SPARK_TYPE: field.dataType.jsonValue()}
    required = [field.name for field in struct.fields if not field.nullable]
    return {"type": "object", "properties": properties, "required": required}


def _schema(kind: spark.DataType) -> dict[str, Any]:
    if isinstance(kind, spark.StructType):
        return _object(kind)
    if isinstance(kind, spark.ArrayType):
        return {"type": "array", "items": _element(kind.elementType, kind.containsNull)}
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        values = _element(kind.valueType, kind.valueContainsNull)
        return {"type": "object", "additionalProperties": values}
    if isinstance(kind, spark.DecimalType):
        return {"type": ["number", "string"], "pattern": r"^-?\d+(\.\d+)?$"}
    if bits := _BITS.get(type(kind)):
        limit = 2 ** (bits - 1)
        return {"type": "integer", "minimum": -limit, "maximum": limit - 1}
    if type(kind) not in _PLAIN:
        raise InvalidValueError(
            f"a model cannot have a field of the type {kind.simpleString()}",
            hint="Use STRING: the column then has the field as JSON text.",
            field="model",
        )
    return dict(_PLAIN[type(kind)])


def _element(kind: spark.DataType, nullable: bool) -> dict[str, Any]:
    schema = _schema(kind)
    return _or_null(schema) if nullable else schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The other keywords apply to values of a type, so they allow null."""
    named = schema["type"]
    return {**schema, "type": [*([named] if isinstance(named, str) else named), "null"]}
