"""A validator for the part of JSON Schema that docs/reference/openapi.json uses; a word it does not know is an error, never ignored."""
import datetime
import re

ANNOTATIONS = {"description", "example", "default", "title"}
TYPES = {"string": str, "boolean": bool, "array": list, "object": dict}


def resolve(doc, schema):
    while "$ref" in schema:
        at = doc
        for part in schema["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        schema = at
    return schema


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def text_errors(schema, value, at):
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not match {schema['pattern']}"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{at}: longer than {schema['maxLength']}"
    if schema.get("format") == "date-time":
        try:
            datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", value).replace("Z", "+00:00"))
        except ValueError:
            yield f"{at}: {value!r} is no date-time"


def number_errors(schema, value, at):
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        yield f"{at}: {value} is outside {schema.get('minimum')}..{schema.get('maximum')}"
    if schema.get("format") == "int64" and not -2**63 <= value < 2**63:
        yield f"{at}: {value} is no int64"


def object_errors(doc, schema, value, at):
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at}: '{name}' is missing"
    for name, v in value.items():
        if name in known:
            yield from errors(doc, known[name], v, f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{at}: '{name}' is not described"


def errors(doc, schema, value, at="$"):
    """What is wrong with a value: messages with its place."""
    schema = resolve(doc, schema)
    unknown = set(schema) - ANNOTATIONS - {"type", "format", "enum", "pattern", "maxLength", "minimum", "maximum", "required", "properties",
                                           "additionalProperties", "items", "oneOf"}
    if unknown:
        yield f"{at}: the validator does not know {sorted(unknown)}"
    if "type" in schema and not is_type(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "oneOf" in schema:
        fits = sum(not list(errors(doc, s, value, at)) for s in schema["oneOf"])
        if fits != 1:
            yield f"{at}: {value!r} fits {fits} of {len(schema['oneOf'])} alternatives"
    if isinstance(value, str):
        yield from text_errors(schema, value, at)
    elif isinstance(value, dict):
        yield from object_errors(doc, schema, value, at)
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from errors(doc, schema.get("items", {}), v, f"{at}[{i}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from number_errors(schema, value, at)


def self_test():
    """The validator must say no."""
    doc = {"n": {"type": "integer", "minimum": 0}}
    o = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/n"}, "b": {"type": "array", "items": {"type": "string", "pattern": "^x"}}},
         "additionalProperties": False}
    good = [{"a": 1}, {"a": 0, "b": ["x", "xy"]}]
    bad = [{}, {"a": -1}, {"a": True}, {"a": "1"}, {"a": 1, "c": 2}, {"a": 1, "b": ["y"]}, {"a": 1, "b": "x"}, [], None]
    assert all(not list(errors(doc, o, v)) for v in good) and all(list(errors(doc, o, v)) for v in bad)
    assert list(errors(doc, {"multipleOf": 2}, 3)) and list(errors(doc, {"oneOf": [{"type": "string"}, {"type": "string"}]}, "x"))
    assert list(errors(doc, {"type": "string", "format": "date-time"}, "yesterday"))
    assert not list(errors(doc, {"type": "string", "format": "date-time"}, "2026-11-21T21:00:00.123456789Z"))
