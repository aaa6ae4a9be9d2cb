"""The program of docs/api.md in TypeScript: checked by the compiler, and run against a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from source_tree import CHECKOUT, ROOT
from web_site import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from web_site import Site

PACKAGES = (
    *("openapi-fetch@0.13.8", "openapi-typescript@7.13.0", "typescript@5.9.3"),
    *("@types/node@20", "ai@5"),
)
OPTIONS = {
    "strict": True,
    "target": "es2022",
    "module": "nodenext",
    "skipLibCheck": True,
    "types": ["node"],
}
MOST_LINES = 30


@pytest.mark.slow
def test_the_typescript_program_of_the_docs_runs(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    """With strict types; the message comes back as the AI SDK had it, and is found."""
    if not ROOT.is_relative_to(CHECKOUT):
        pytest.skip("the installed wheel is tested, not the checkout")
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    text = (CHECKOUT / "docs" / "api.md").read_text(encoding="utf-8")
    program = text.partition("```ts\n")[2].partition("```")[0]
    site = make_site()

    def run(*words: str) -> str:
        env = {**os.environ, "MEMDB_API": site.origin, "MEMDB_TOKEN": TOKEN}
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
    (tmp_path / "program.ts").write_text(program)
    (tmp_path / "openapi.json").write_bytes(site.ask("GET", "openapi.json").body)
    run("npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES)
    run("npx", "openapi-typescript", "openapi.json", "-o", "memdb.d.ts")
    run("npx", "tsc", "-p", ".")
    told, _, found = run("node", "program.js").strip().rpartition(" We fly")

    part = {"type": "text", "text": "We fly to Oslo on 3 May."}
    assert {"id": "m1", "role": "user", "parts": [part]} in json.loads(told)
    assert f"We fly{found}" == part["text"]
    assert len(program.splitlines()) <= MOST_LINES
