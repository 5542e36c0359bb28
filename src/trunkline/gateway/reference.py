"""``/docs``: the OpenAPI document as one plain page, without scripts and without remote files."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

router = APIRouter()

_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}: HTTP reference</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
summary {{ cursor: pointer; padding: .2rem 0; }}
summary b {{ display: inline-block; width: 4.5rem; font-family: monospace; }}
code, pre {{ font-family: monospace; font-size: .9rem; }}
pre {{ overflow-x: auto; padding: .5rem; border: 1px solid #8886; }}
details > div {{ margin: 0 0 1rem 4.5rem; }}
td, th {{ text-align: left; vertical-align: top; padding: .1rem 1rem .1rem 0; }}
</style>
<h1>{title} {version}</h1>
<p>{description} For programs: <a href="openapi.json">openapi.json</a>.</p>
"""


@router.get("/docs", include_in_schema=False)
async def reference(request: Request) -> HTMLResponse:
    """All operations with what they take and answer."""
    return HTMLResponse(page(request.app.openapi()), headers=_HEADERS)


def page(document: dict[str, Any]) -> str:
    """The document as HTML."""
    info = {name: escape(str(value)) for name, value in document["info"].items()}
    parts = [_HEAD.format(**info)]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = "\n".join(_operation(method.upper(), path, operation))
            groups.setdefault(operation["tags"][0], []).append(shown)
    for tag, operations in groups.items():
        parts += [f"<h2>{escape(tag)}</h2>", *operations]
    parts += ["<h2>schemas</h2>"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
            f"<div>{_json(schema)}</div></details>"
        )
    return "\n".join([*parts, "</html>"])


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    title = escape(operation.get("summary", ""))
    yield f"<details><summary><b>{method}</b> <code>{escape(path)}</code> {title}</summary><div>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    if parameters := operation.get("parameters"):
        yield "<table><tr><th>parameter<th>in<th>"
        for each in parameters:
            name = f"<code>{escape(each['name'])}</code>{' *' if each.get('required') else ''}"
            yield f"<tr><td>{name}<td>{each['in']}<td>{escape(each.get('description', ''))}"
        yield "</table>"
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body: <code>{escape(kind)}</code></p>{_json(body['schema'])}"
    for status, answer in operation["responses"].items():
        yield f"<p>{status} {escape(answer['description'])}</p>"
        if status[0] == "2":
            for kind, body in answer.get("content", {}).items():
                yield f"<p><code>{escape(kind)}</code></p>{_json(body['schema'])}"
    yield "</div></details>"


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"
