"""The files of the page: named by a hash of all of them, immutable, compressed, no other file."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import memdb
from memdb.cli import cli
from memdb.web.app import FOREVER, StaticFiles

if TYPE_CHECKING:
    from web_site import Site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a small page."""
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text('<script type="module" src="{{static}}/app.js"></script>')
    (tmp_path / "app.js").write_text('import "./views/map.js";')
    (tmp_path / "views" / "map.js").write_text("export {};")
    (tmp_path / "secret.py").write_text("no file of the page")
    return tmp_path


def test_the_hash_is_that_of_every_file(folder: Path) -> None:
    """One changed byte gives all of them another address."""
    first = StaticFiles(folder)
    assert first.names() == ["app.js", "views/map.js"]
    assert first.prefix.startswith("s/")
    assert StaticFiles(folder).prefix == first.prefix
    (folder / "views" / "map.js").write_text("export  {};")
    assert StaticFiles(folder).prefix != first.prefix


def test_each_command_that_the_page_shows_exists() -> None:
    """In backticks, or between tags of code."""
    folder = Path(memdb.__file__).parent / "web" / "static"
    text = "\n".join(file.read_text("utf-8") for file in folder.rglob("*.*"))
    shown = set(re.findall(r'["`>]memdb ([a-z-]+)(?: ([a-z-]+))?', text))
    missing = []
    for noun, verb in shown:
        found = cli.get_command(click.Context(cli), noun)
        if isinstance(found, click.Group) and verb:
            found = found.get_command(click.Context(found), verb)
        missing += [] if found else [f"{noun} {verb}"]

    assert len(shown) > 3
    assert missing == []


def test_the_files_of_the_package(reading_site: Site) -> None:
    """Each is answered by its type, plain and compressed, for ever; the index names them."""
    static = reading_site.app.static
    index = reading_site.send("GET", reading_site.base)
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert b"{{static}}" not in index.body
    assert index.headers["cache-control"] == "no-cache"
    for name in static.names():
        path = f"{reading_site.base}{static.prefix}/{name}"
        plain = reading_site.send("GET", path)
        packed = reading_site.send("GET", path, None, {"Accept-Encoding": "gzip"})
        assert plain.status == packed.status == 200
        assert gzip.decompress(packed.body) == plain.body
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["cache-control"] == FOREVER["Cache-Control"]
        assert plain.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in plain.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "s/",
        "s/index.html",
        "s/0000000000000000/app.js",
        "{prefix}",
        "{prefix}/",
        "{prefix}/index.html",
        "{prefix}/nothing.js",
        "{prefix}/../app.py",
        "{prefix}/%2e%2e/app.py",
        "{prefix}//etc/passwd",
        "{prefix}x/app.js",
    ],
)
def test_no_other_file_is_answered(reading_site: Site, path: str) -> None:
    """Whatever the path says."""
    static = reading_site.app.static
    answer = reading_site.send("GET", reading_site.base + path.format(prefix=static.prefix))

    assert answer.status == 404
    assert answer.json["code"] == "no_route"


def test_nothing_is_written_to_the_shell(reading_site: Site) -> None:
    """Only reads are open without a credential."""
    static = reading_site.app.static
    for path in ("", "health", f"{static.prefix}/app.js"):
        headers = {"Origin": reading_site.origin, "Content-Type": "application/json"}
        assert reading_site.send("POST", reading_site.base + path, "{}", headers).status == 401
