"""The OpenAPI document: whole, true, and good enough to make clients of."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.serving import ADMIN, READER, asking, token

if TYPE_CHECKING:
    from tests.gateway.serving import Web

OPEN = {"/healthz", "/metrics"}
CLIENT = Path(__file__).parent / "client.ts"
# Streams end when the client leaves: a program that waits for a whole answer cannot ask for them.
NOT_JUDGED = {
    "positive_data_acceptance": "a schema cannot say which topics and groups are there",
}
STREAMS = "/stream$|kv-watch|/v1/live/"


async def operations(web: Web) -> list[tuple[str, str, dict[str, Any]]]:
    document = await web.ask("GET", "/openapi.json")
    return [
        (method, path, found)
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    ]


async def test_every_operation_has_answers_refusals_and_who_may_ask(web: Web) -> None:
    for method, path, found in await operations(web):
        where, answers = f"{method} {path}", found["responses"]
        good = [each for status, each in answers.items() if status[0] == "2"]
        assert good, where
        for each in good:
            assert each is answers.get("204") or all(
                "schema" in kind and (kind["schema"] or path == "/v1/kv/{key}")
                for kind in each["content"].values()
            ), where
        for status in ("4XX", "5XX"):
            schema = answers[status]["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, where
        assert "422" not in answers, where
        assert ("security" in found) is (path not in OPEN), where


async def test_who_needs_no_token_is_in_the_document(web: Web, web_dsn: str) -> None:
    for each in (web, None):
        if each is None:
            async with asking(web_dsn, anonymous_role=READER) as without:
                found = await operations(without)
        else:
            found = await operations(each)
        secured = [one["security"] for _, path, one in found if path not in OPEN]
        assert all(({} in names) is (each is None) for names in secured)


async def test_a_method_that_is_not_there_is_answered_with_those_that_are(web: Web) -> None:
    answer = await web.raw("PATCH", "/v1/broker/subscriptions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, HEAD")
    assert answer.json()["code"] == "TL405"
    assert (await web.refused("GET", "/nowhere", 404))["code"] == "TL404"


async def test_a_body_that_cannot_be_read_is_422(web: Web) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (b"\xff", b"{", b'"\\ud800"', b"[" * 100_000):
        problem = await web.refused(
            "POST", "/v1/broker/subscriptions", 422, content=content, headers=headers
        )
        assert problem["code"] == "TL422"


async def test_the_page_of_the_reference_loads_nothing_from_elsewhere(web: Web) -> None:
    answer = await web.raw("GET", "/docs", role=None)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    for _, path, found in await operations(web):
        assert path in answer.text
        assert found["summary"].replace("'", "&#x27;") in answer.text


async def run(*command: str | Path, cwd: Path, within: float) -> str:
    """Run a program while the gateway of this process serves it; what it says."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(within):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    text = said.decode(errors="replace")
    assert process.returncode == 0, text[-20_000:]
    return text


@pytest.mark.timeout(240)
async def test_generated_requests_are_answered_as_the_document_says(
    served: Web, tmp_path: Path
) -> None:
    """Schemathesis asks each operation; each check that it may not make is explained above."""
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"),
        f"{served.client.base_url}/openapi.json",
        f"--header=Authorization: Bearer {token(ADMIN)}",
        f"--exclude-path-regex={STREAMS}",
        f"--exclude-checks={','.join(NOT_JUDGED)}",
        *("--phases=coverage,fuzzing", "--max-examples=2", "--max-time=60", "--seed=7"),
        *("--generation-database=none", "--no-shrink", "--no-color", "--warnings=off"),
    ]
    said = await run(*command, cwd=tmp_path, within=200)
    print(said[-3000:])


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: no TypeScript here")
@pytest.mark.timeout(300)
async def test_a_client_made_of_the_document_compiles_and_works(
    served: Web, tmp_path: Path
) -> None:
    packages = ("typescript@5.9", "openapi-typescript@7", "openapi-fetch@0.17", "@types/node@20")
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    shutil.copy(CLIENT, tmp_path / "client.ts")
    try:
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        await run("npm", "install", *quiet, *packages, cwd=tmp_path, within=120)
    except (AssertionError, TimeoutError) as error:
        pytest.skip(f"npm cannot install {', '.join(packages)}: {str(error)[-200:]}")
    programs, base = tmp_path / "node_modules" / ".bin", str(served.client.base_url).rstrip("/")
    document = f"{base}/openapi.json"
    generate = programs / "openapi-typescript"
    options = ("--default-non-nullable=false", "-o", "schema.ts")
    await run(generate, document, *options, cwd=tmp_path, within=60)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    await run(programs / "tsc", *options, "client.ts", cwd=tmp_path, within=90)
    said = await run("node", "client.js", base, token(ADMIN), cwd=tmp_path, within=30)
    assert said.strip().endswith("all is well")
