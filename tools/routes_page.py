"""docs/routes.md and docs/shapes.md: every route of the HTTP API with its role, its request and response, and the
shapes of both, generated from the application itself. `make docs` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.operations.administration_shapes import Role
from noetl.server.access.roles import AccessRule, protected_routes
from tools.openapi import application, description

ROUTES_HEAD = """# Routes

Generated from the server (`make docs`); `GET /openapi.json` of a server says the same. [HTTP API](api.md) says what
every route has in common: tokens, errors, and how to do something once.

*Role* is the least that a token needs: `viewer`, `operator`, `author` and `admin` each may do what those before may.
Routes of a `worker` are for tokens of that role. [Security](security.md) explains the roles.

"""
SHAPES_HEAD = """# Shapes

Generated from the server (`make docs`): what [routes](routes.md) take and give, as JSON. A field with a default may be
left out of a request. Answers may get further fields in later versions.

"""
_JSON, _CONVERTER = "application/json", re.compile(r":\w+\}")
_TYPES = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false", "object": "mapping"}
_LONGEST_DEFAULT = 40
# Requirements and sections of the specification, which readers of the code need and users do not.
_INTERNAL = re.compile(r"\s*\((?:(?:[A-Z][A-Z0-9]*-\d+|[\w-]+\.md §[\d.]+),? ?)+\)|\s+of [\w-]+\.md §[\d.]+")

Schema = dict[str, Any]


def route_pages() -> dict[str, str]:
    """Both pages by their place."""
    told = description()
    return {"docs/routes.md": _routes_page(told), "docs/shapes.md": _shapes_page(told)}


def _routes_page(told: Schema) -> str:
    rules = _rules()
    sections: dict[str, list[str]] = {}
    for path, methods in sorted(told["paths"].items()):
        for method, route in methods.items():
            text = _route(method.upper(), path, route, rules[method.upper(), path])
            sections.setdefault(route["tags"][0], []).append(text)
    parts = (f"## {tag.capitalize()}\n\n" + "\n".join(sections[tag]) for tag in sorted(sections))
    return ROUTES_HEAD + "\n".join(parts)


def _rules() -> dict[tuple[str, str], AccessRule]:
    """The access rule of each method and path; OpenAPI shows a path without the converters of its parts."""
    return {
        (method, _CONVERTER.sub("}", door.template)): door.rule(method)
        for door in protected_routes(application())
        for method in door.methods or ()
    }


def _route(method: str, path: str, route: Schema, rule: AccessRule) -> str:
    summary, more = route["summary"], _line(route.get("description", ""))
    lines = [f"### `{method} {path}`", "", f"{summary}. {more}".rstrip(), "", f"Role: {_role(rule)}. {_answers(route)}"]
    if body := _body(route):
        lines[-1] += f" {body}"
    if parameters := route.get("parameters", []):
        lines += ["", "| parameter | in | value | |", "|---|---|---|---|", *map(_parameter, parameters)]
    return "\n".join(lines) + "\n"


def _role(rule: AccessRule) -> str:
    if rule.is_public:
        return "none"
    least = next((role for role in Role if role in rule.roles and role is not Role.WORKER), None)
    named = [f"`{role}`" for role in (least, Role.WORKER if Role.WORKER in rule.roles else None) if role is not None]
    return " or ".join(named) + (", or a role of human tasks" if rule.takes_human_roles else "")


def _answers(route: Schema) -> str:
    given = [(status, one.get("content", {})) for status, one in route["responses"].items() if status != "default"]
    told = [f"{status}" + (f" with {_contents(content)}" if content else "") for status, content in given]
    return f"Answers {', '.join(told)}."


def _body(route: Schema) -> str:
    body = route.get("requestBody")
    return f"The body is {_contents(body['content'])}." if body else ""


def _contents(content: Schema) -> str:
    return " or ".join(
        _noun(_value(one["schema"])) if media == _JSON and one.get("schema") else f"`{media}`"
        for media, one in content.items()
    )


def _noun(value: str) -> str:
    return f"a {value}" if value.startswith(("list", "mapping", "text", "number")) else value


def _parameter(one: Schema) -> str:
    name = f"`{one['name']}`" + (" (required)" if one.get("required") and one["in"] != "path" else "")
    return _row(name, one["in"], _value(one["schema"]) + _default(one["schema"]), _line(one.get("description", "")))


def _shapes_page(told: Schema) -> str:
    schemas = told["components"]["schemas"]
    return SHAPES_HEAD + "\n".join(_shape(name, schemas[name]) for name in sorted(schemas, key=str.lower))


def _shape(name: str, schema: Schema) -> str:
    lines = [f"## {name}", ""]
    if text := _line(schema.get("description", "")):
        lines += [text, ""]
    if "properties" not in schema:
        return "\n".join([*lines, f"Is {_value(schema)}.", ""])
    lines += ["| field | value |", "|---|---|"]
    lines += [_row(f"`{field}`", _value(one) + _default(one)) for field, one in schema["properties"].items()]
    return "\n".join(lines) + "\n"


def _value(schema: Schema) -> str:
    """The allowed values, as text."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](shapes.md#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(_value(one) for one in schema.get("anyOf") or schema["oneOf"]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return "list" + (f" of {_value(schema['items'])}" if schema.get("items") else "")
        case "object" if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
            return f"mapping to {_value(schema['additionalProperties'])}"
        case str(kind):
            return _TYPES.get(kind, kind)
    return "any value"


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if value in (None, "", {}) or len(shown) > _LONGEST_DEFAULT else f", default `{shown}`"


def _row(*cells: str) -> str:
    return ("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |").replace("|  |", "| |")


def _line(text: str) -> str:
    return _INTERNAL.sub("", " ".join(text.split()))


def shown_routes(page: str) -> Iterator[tuple[str, str]]:
    """Method and path of each route on the page."""
    yield from re.findall(r"^### `([A-Z]+) (\S+)`$", page, re.MULTILINE)
