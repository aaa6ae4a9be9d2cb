"""What tests of exports and imports share: writing a file, exporting and reading one."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes JSON lines (or text as it is) to a file and gives its path."""

    def write(*given: Any, name: str = "given.jsonl") -> str:
        path = tmp_path / name
        texts = [one if isinstance(one, str) else json.dumps(one) for one in given]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def document(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes one JSON value to a file, in a zip when asked."""

    def write(value: Any, *, member: str | None = None) -> str:
        path = tmp_path / ("given.zip" if member else "given.json")
        text = json.dumps(value, indent=1)
        if member is None:
            path.write_text(text, encoding="utf-8")
        else:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("user.json", "{}")
                archive.writestr(member, text)
        return str(path)

    return write


@pytest.fixture
def exported() -> Callable[..., list[str]]:
    """Return a function that gives the lines of an export."""

    def export(opened: MemDB, user: str | None = None) -> list[str]:
        return list(opened.export_lines(user=user))

    return export


@pytest.fixture
def told() -> Callable[..., list[tuple[Any, ...]]]:
    """Return a function that gives fields of a session's messages."""

    def read(opened: MemDB, session: str, *names: str, user: str = "ann") -> list[tuple[Any, ...]]:
        found = opened.scope(user).session(session).messages()
        return [tuple(getattr(message, name) for name in names) for message in found]

    return read
