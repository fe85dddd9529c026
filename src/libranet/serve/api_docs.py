"""The HTTP interface as a page, from its own OpenAPI description, without scripts of other hosts."""

import re
from html import escape
from typing import Any

from libranet.page import make_page


def describe_api(schema: dict[str, Any]) -> str:
    """Render an OpenAPI description as HTML."""
    parts = [f"<h1>{escape(schema['info']['title'])}: HTTP interface</h1>"]
    parts += [f"<p>{_text(text)}</p>" for text in schema["info"]["description"].split("\n\n")]
    parts.append('<p>The same for programs: <a href="openapi.json">openapi.json</a></p>')
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(path, method, operation))
    parts.append("<h2>Bodies</h2>")
    parts += [_model(name, model) for name, model in schema["components"]["schemas"].items()]
    return make_page("LiBrA-Net: HTTP interface", "".join(parts), links="../")


def _text(text: str) -> str:
    """A paragraph; what is between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(p['name'])}</code><td>{escape(p['in'])}<td>{escape(_kind(p['schema']))}"
        f"<td>{escape(p.get('description', ''))}"
        for p in operation.get("parameters", [])
    )
    table = f'<div class="wide"><table><tr><th>name<th>in<th>type<th>{rows}</table></div>' if rows else ""
    body = operation.get("requestBody", {}).get("content", {})
    sent = "".join(f"<p>Body: {escape(kind)} {escape(_kind(c.get('schema', {})))}</p>" for kind, c in body.items())
    answers, about = ", ".join(operation["responses"]), _text(operation.get("description", ""))
    return (
        f"<article><h3><code>{method.upper()} {escape(path)}</code></h3><p>{about}</p>"
        f'{table}{sent}<p class="soft">Answers: {escape(answers)}</p></article>'
    )


def _model(name: str, model: dict[str, Any]) -> str:
    if "enum" in model:
        return f"<article><h3>{escape(name)}</h3><p>{escape(', '.join(map(str, model['enum'])))}</p></article>"
    rows = "".join(
        f"<tr><td><code>{escape(key)}</code><td>{escape(_kind(value))}<td>{escape(value.get('description', ''))}"
        for key, value in model.get("properties", {}).items()
    )
    about = _text(model.get("description", ""))
    table = f'<div class="wide"><table><tr><th>name<th>type<th>{rows}</table></div>'
    return f"<article><h3>{escape(name)}</h3><p>{about}</p>{table}</article>"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f", {low:g} to {high:g}" if low is not None and high is not None else ""
    return f"{schema.get('type', 'any')}{bounds}"
