"""Types of the page: those of the answers are made from the API, and nothing turns them off."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from api_types import declarations
from cases import each
from source_tree import CHECKOUT, ROOT

import memdb

STATIC = Path(memdb.__file__).parent / "web" / "static"
TYPES = Path(__file__).parent / "types" / "api.d.ts"


def test_the_types_of_answers_are_those_of_the_api() -> None:
    """`MEMDB_WRITE_DOCS=1 pytest tests/web/test_page_types.py` writes them anew."""
    made = declarations()
    if os.environ.get("MEMDB_WRITE_DOCS"):
        TYPES.write_text(made, encoding="utf-8")
        return

    assert TYPES.read_text(encoding="utf-8") == made


@each("path", sorted(STATIC.rglob("*.js")))
def test_no_type_is_turned_off(path: Path) -> None:
    """TypeScript is told what a thing is, not to look away."""
    text = path.read_text(encoding="utf-8")

    for word in ("@ts-", "{any}", "{never}", "{*}"):
        assert word not in text


def test_a_checkout_without_npx_says_what_it_left_out(tmp_path: Path) -> None:
    """And passes: nothing of the page is built."""
    if not ROOT.is_relative_to(CHECKOUT):
        pytest.skip("the installed wheel is tested, not the checkout")
    for name in ("bash", "dirname", "env"):
        path = shutil.which(name)
        assert path is not None
        (tmp_path / name).symlink_to(path)
    done = subprocess.run(
        [Path(CHECKOUT) / ".ci" / "page-types"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    assert done.stdout == "no npx: the types of the page were not checked\n"
