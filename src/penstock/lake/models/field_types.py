"""JSON Schema -> the columns of a table, with their Spark types.

A field whose schema has no single type becomes text: a string unchanged, any other value as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import InvalidValueError

# In a schema: the type of the column, as Spark's JSON or as DDL such as `DECIMAL(10,2)`.
SPARK_TYPE: Final = "x-spark-type"
# Columns of Penstock, and names that other readers of the files refuse.
_TAKEN: Final = re.compile(r"message_|(day|queue)?$|_|[0-9]", re.IGNORECASE)
_CLEAN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_DEPTH: Final = 20
_SIMPLE: Final[dict[str, type[DataType]]] = {
    "integer": LongType,
    "number": DoubleType,
    "boolean": BooleanType,
}
_TEXT_FORMATS: Final[dict[str, type[DataType]]] = {"date-time": TimestampType, "date": DateType}

JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the payload, and its column in the table."""

    name: str
    column: str
    type: DataType
    required: bool

    def as_json(self) -> list[Any]:
        return [self.name, self.column, self.type.jsonValue(), self.required]

    @classmethod
    def from_json(cls, found: list[Any]) -> Field:
        name, column, type_, required = found
        return cls(name, column, parse_type(type_), required)


def parse_type(found: Any) -> DataType:
    """A type as Spark's JSON, or as DDL (which needs a Spark session)."""
    if isinstance(found, str):
        try:
            return _from_json(found)
        except Exception:
            return _from_ddl(found)
    return _from_json(found)


def _from_ddl(found: str) -> DataType:
    try:
        return DataType.fromDDL(found)
    except PySparkException:
        raise InvalidValueError(
            f"{SPARK_TYPE} is {found!r}, which is not a type of Spark",
            hint="Write it as in DDL, such as DECIMAL(10,2).",
            field="model",
            value=found,
        ) from None


def _from_json(found: Any) -> DataType:
    whole = {"type": "struct", "fields": [_field_json(found)]}
    return StructType.fromJson(whole)["value"].dataType


def _field_json(type_: Any) -> dict[str, Any]:
    return {"name": "value", "type": type_, "nullable": True, "metadata": {}}


def fields_of(schema: JsonSchema) -> tuple[Field, ...]:
    """The columns of a model. Its schema must be that of an object with properties."""
    top = _resolved(schema, schema, 0)
    properties = top.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise InvalidValueError(
            "the model has no fields",
            hint="Its JSON Schema must be of an object with properties.",
            field="model",
        )
    required = set(top.get("required", ()))
    fields = []
    for name, inner in properties.items():
        kind = _type(inner, schema, 0)
        fields.append(Field(name, column_name(name), kind, name in required))
    _check_distinct(fields)
    return tuple(fields)


def column_name(name: str) -> str:
    """The column of a field. Other characters become `_`, and used names get a prefix."""
    column = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if _TAKEN.match(column):
        return f"payload_{column.removeprefix('_')}"
    return column


def _check_distinct(fields: list[Field]) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.column.lower(), field.name)
        if other != field.name:
            raise InvalidValueError(
                f"the fields {other!r} and {field.name!r} of the model need the same column",
                hint="Column names ignore case and special characters. Rename one of the fields.",
                field="model",
            )


def _type(schema: Any, root: JsonSchema, depth: int) -> DataType:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return StringType()
    if SPARK_TYPE in schema:
        return parse_type(schema[SPARK_TYPE])
    schema = _resolved(schema, root, depth)
    if SPARK_TYPE in schema:
        return parse_type(schema[SPARK_TYPE])
    kinds = _kinds(schema)
    if kinds == {"number", "string"} and "anyOf" in schema:
        return DecimalType(38, 18)  # how pydantic describes a Decimal
    if len(kinds) != 1 or "anyOf" in schema or "oneOf" in schema:
        return StringType()
    (kind,) = kinds
    if kind in _SIMPLE:
        return _SIMPLE[kind]()
    if kind == "array":
        return ArrayType(_type(schema.get("items"), root, depth + 1))
    if kind == "object":
        return _object(schema, root, depth)
    return _TEXT_FORMATS.get(str(schema.get("format")), StringType)()


def _object(schema: JsonSchema, root: JsonSchema, depth: int) -> DataType:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        names = [name.lower() for name in properties]
        if len(set(names)) < len(names) or not all(map(_CLEAN.fullmatch, properties)):
            return StringType()
        inner = (
            StructField(name, _type(each, root, depth + 1)) for name, each in properties.items()
        )
        return StructType(list(inner))
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and values:
        return MapType(StringType(), _type(values, root, depth + 1))
    return StringType()


def _kinds(schema: JsonSchema) -> set[str]:
    """The JSON types that a schema allows, without null."""
    if "anyOf" in schema:
        inner = [_kinds(each) for each in schema["anyOf"] if isinstance(each, Mapping)]
        return set().union(*inner)
    named = schema.get("type")
    if named is None and "enum" in schema:
        return {_json_type(value) for value in schema["enum"]} - {"null"}
    kinds = {named} if isinstance(named, str) else set(named or ())
    return kinds - {"null"}


def _json_type(value: Any) -> str:
    names: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return "null" if value is None else names.get(type(value), "object")


def _resolved(schema: JsonSchema, root: JsonSchema, depth: int) -> JsonSchema:
    """Follows references and choices between a schema and null."""
    for _ in range(_MAX_DEPTH):
        if "$ref" in schema:
            schema = _referenced(str(schema["$ref"]), root)
        elif len(choices := _not_null(schema.get("anyOf") or schema.get("oneOf"))) == 1:
            schema = choices[0]
        elif len(parts := schema.get("allOf", ())) == 1 and "type" not in schema:
            schema = parts[0]
        else:
            return schema
    return {}


def _not_null(choices: Any) -> list[JsonSchema]:
    found = [each for each in choices or () if isinstance(each, Mapping)]
    return [each for each in found if each.get("type") != "null"]


def _referenced(reference: str, root: JsonSchema) -> JsonSchema:
    found: Any = root
    for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise InvalidValueError(
            f"the model refers to {reference!r}, which is not in its schema",
            hint="References must be within the schema, such as #/$defs/Address.",
            field="model",
        )
    return found
