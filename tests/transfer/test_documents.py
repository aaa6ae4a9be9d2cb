"""Exports for people: whole, readable, and harmless whatever the texts say."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb.formats.documents import (
    guarded,
    is_formula,
    unguarded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

    Told = Callable[..., list[tuple[Any, ...]]]

FORMATS = ("markdown", "html", "csv")
HOSTILE = (
    "<script>alert(1)</script>",
    "</p></article></details></main><img src=x onerror=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "<!-- --><![CDATA[ ]]><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "&lt;b&gt; &amp; &#60;i&#62;",
    '=HYPERLINK("http://x.example")',
    "\t@SUM(1+1)*cmd|' /C calc'!A0",
    "'+1",
    "# Heading\n\n---\n```\n> quote",
    "![x](http://x.example/pixel.png)",
    "\x1b[31mred \u202eevil\u2066 \x07",
    "Blåbær 𝄞 e\u0301",
)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "p", "a", "main", "h1", "h2"),
    *("details", "summary", "article", "nav", "ul", "li", "img"),
}


class Page(HTMLParser):
    """Collects the tags of a page with their attributes, and the texts of its records."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag, and begin the words of a record."""
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if dict(attrs).get("class") == "words":
            self.words.append("")

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add to the words of a record."""
        if self.open and self.open[-1] == "p" and self.words:
            self.words[-1] += data


@pytest.fixture
def hostile(db: MemDB) -> MemDB:
    """Return a file in which everything that has words says something hostile."""
    ann = db.scope("ann")
    for number, text in enumerate(HOSTILE):
        session = ann.session(f"{number} {text}")
        session.append("user", text, author=f"a {text}")
        session.append("assistant", f"so {text}")
        session.update(title=f"t {text}")
        ann.remember(f"Ann said {text}", key=f"k {text}")
        ann.artifacts.save(f"{number} {text}.md", text, metadata={"x": text})
        ann.items.put((f"n {text}",), f"k {text}", {"v": text})
    ann.artifacts.save("photo.png", b"\x89PNG\r\n\x1a\n123", mime="image/png")
    ann.artifacts.save("photo.svg", "<svg onload='alert(1)'/>", mime="image/svg+xml")
    return db


def written(db: MemDB, format_: Any, tmp_path: Path) -> str:
    """Return an export as text."""
    db.export(tmp_path / "out", user="ann", format=format_, replace=True)
    return (tmp_path / "out").read_bytes().decode("utf-8-sig")


def test_a_page_has_text_only(hostile: MemDB, tmp_path: Path) -> None:
    """No tag, attribute or address comes from a text, and each text is on it."""
    text = written(hostile, "html", tmp_path)
    page = Page(text)
    names = {name for _, attributes in page.tags for name in attributes}
    addresses = [one for _, has in page.tags for key, one in has.items() if key in ("href", "src")]

    assert {tag for tag, _ in page.tags} == TAGS
    assert names == {
        *("lang", "charset", "http-equiv", "content", "name", "id", "class", "dir", "href"),
        *("src", "alt"),
    }
    assert all(re.fullmatch(r"#c\d+|#contents|data:image/png;base64,[\w+/=]+", one or "")
               for one in addresses)  # fmt: skip
    assert page.open == []
    assert "default-src 'none'" in text
    said = "\n".join(page.words)
    plain = [one for one in HOSTILE if one.isprintable() or "\n" in one]
    assert all(one in said for one in plain)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_texts_of_markdown_stay_in_their_quotation(hostile: MemDB, tmp_path: Path) -> None:
    """Headings are those of the export, and nothing is HTML or fetched."""
    text = written(hostile, "markdown", tmp_path)
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)

    assert len([one for one in headings if one.startswith("### ")]) == len(HOSTILE)
    assert [one for one in headings if not one.startswith("### ")] == [
        "# Memory of ann",
        *("## Conversations", "## What is remembered", "## Artifacts", "## Items"),
    ]
    text = re.sub(
        r"(?m)(\*\*|Z) <!-- [\w%.~-]+( [\w%.~-]+)? -->$", r"\1", text
    )  # what it is known by
    assert re.search(r"(?<!\\)<(script|img|svg|!)", text) is None
    assert re.search(r"(?<!\\)!\[", text) is None


def test_no_cell_is_a_formula(hostile: MemDB, tmp_path: Path) -> None:
    """A spreadsheet runs none of them; each row has all columns."""
    rows = [*csv.reader(io.StringIO(written(hostile, "csv", tmp_path), newline=""))]

    assert {len(row) for row in rows} == {18}
    assert len(rows) == 1 + 4 * len(HOSTILE)
    assert not any(re.match(r"\s*[=+\-@\uff1d]", cell) for row in rows for cell in row)


@given(st.text(alphabet="'=+-@ \t\n\r\ufeffa\uff1d\u00a01"))
@settings(max_examples=300)
def test_a_guarded_cell_comes_back(cell: str) -> None:
    """The apostrophe is before a formula only, and is told from one that was there."""
    assert unguarded(guarded(cell)) == cell
    assert is_formula(cell) == (guarded(cell) != cell)
    assert not guarded(cell).lstrip(" \t\r\n\ufeff\u00a0").startswith(("=", "+", "-", "@"))


ENDINGS = {"csv": "ann.csv", "markdown": "ann.md"}
FIELDS = ("seq", "role", "text", "author", "created_ms", "external_id", "uid")


def test_a_table_comes_in_again(hostile: MemDB, open_db: Any, told: Told, tmp_path: Path) -> None:
    """Messages and entries, in their sessions, as they are shown; a second time nothing."""
    path = tmp_path / "out.csv"
    hostile.export(path, user="ann", format="csv")
    copy = open_db(":memory:")
    reports = [copy.import_file(path, user="ann") for _ in range(2)]
    same = hostile.import_file(path, user="ann")

    assert [(one.messages_added, one.entries_added) for one in reports] == [(26, 13), (0, 0)]
    assert (same.messages_added, same.sessions) == (0, 0)
    assert same.entries_added == 0
    for session in hostile.scope("ann").sessions():
        assert told(copy, session.name, *FIELDS) == told(hostile, session.name, *FIELDS)
    assert {(one.name, one.title) for one in copy.scope("ann").sessions()} == {
        (one.name, one.title) for one in hostile.scope("ann").sessions()
    }
    assert {(one.text, one.key) for one in copy.scope("ann").entries.list()} == {
        (one.text, one.key) for one in hostile.scope("ann").entries.list()
    }


def fill_plainly(db: MemDB) -> None:
    """Store what each document can show."""
    ann = db.scope("ann")
    trip = ann.session("trip: a · b")
    trip.append("user", "Hi <b> &lt; &amp;lt; ![x](y) \\![z]  \n\n# head\n> quote", author="A · B")
    trip.append("assistant", "Yes.\n", external_id="m-2 --> x")
    trip.append("tool", "", parts=[{"type": "tool_result", "id": "c", "text": "4"}])
    trip.update(title="Oslo *trip* #1 · 2")
    trip.branch("other", 2).append("user", "another way")
    old = ann.remember("Ann lives in Oslo.", key="home", keywords=["a", "b, c"]).entry
    new = ann.remember("Ann moved to Bergen.", trust="untrusted", expires="2100-01-01").entry
    ann.entries.supersede(old.id, new.id)
    ann.remember("Ann has a cat · called Miso.", key="pet: cat · 1")
    trip.artifacts.save("plan.md", "Day 1")
    ann.items.put(("notes",), "k", {"a": 1})
    trip.state.update(city="Oslo")


def test_what_a_table_shows_comes_back_whole(
    db: MemDB, open_db: Any, told: Told, tmp_path: Path
) -> None:
    """With titles, times, authors, ids and trust; what held once stays away, and is said."""
    fill_plainly(db)
    path = tmp_path / "out.csv"
    db.export(path, user="ann", format="csv")
    copy = open_db(":memory:")
    report = copy.import_file(path, user="ann")
    ann, again = db.scope("ann"), copy.scope("ann")

    assert report.is_complete
    assert told(copy, "trip: a · b", *FIELDS) == told(db, "trip: a · b", *FIELDS)
    assert again.sessions()[0].title == "Oslo *trip* #1 · 2"
    assert [one.text for one in again.session("trip: a · b (other)").messages()] == ["another way"]
    shown = [
        {
            (one.text, one.category, one.key, one.keywords, one.trust, one.expires_ms)
            for one in scope.entries.list()
        }
        for scope in (ann, again)
    ]
    assert shown[0] == shown[1]
    assert "Ann lives in Oslo." not in {one.text for one in again.entries.list(inactive=True)}
    left = {one.what: one.count for one in report.left_out}
    assert left.pop("entries") == 1
    assert len(left) >= 2  # items and state
    assert all("JSON lines" in one.why for one in report.left_out)


def test_a_table_of_several_users_is_not_mixed(db: MemDB, open_db: Any, tmp_path: Path) -> None:
    """It would become the memory of one."""
    for user in ("ann", "bob"):
        db.scope(user).session("s").append("user", f"I am {user}.")
    path = tmp_path / "out.csv"
    db.export(path, format="csv")

    with pytest.raises(
        memdb.InvalidInput, match=r"2 users \(ann, bob\).*export each user separately"
    ):
        open_db(":memory:").import_file(path, user="ann")


def test_a_page_is_not_read(db: MemDB, tmp_path: Path) -> None:
    """It is told what to export instead."""
    db.scope("ann").session("s").append("user", "hi")
    db.export(tmp_path / "ann.html", format="html")

    with pytest.raises(memdb.InvalidInput, match=r"a page for people.*export JSON lines"):
        db.import_file(tmp_path / "ann.html", user="ann")


def test_messages_of_plain_tables_come_in_again(db: MemDB, open_db: Any, tmp_path: Path) -> None:
    """As those of any other program's table, as docs/export.md says."""
    fill_plainly(db)
    db.export(tmp_path / "plain.db", user="ann", format="sqlite")
    columns = memdb.TableColumns(
        "messages", text="text", role="role", session="session", created="created_ms", id="uid"
    )
    copy = open_db(":memory:")
    reports = [
        copy.import_file(tmp_path / "plain.db", user="ann", columns=columns) for _ in range(2)
    ]

    assert [one.messages_added for one in reports] == [4, 0]
    assert next(iter(copy.scope("ann").session("trip: a · b").messages())).role == "user"


@pytest.mark.parametrize("name", FORMATS)
def test_a_document_is_whole_or_not_there(name: Any, db: MemDB, tmp_path: Path) -> None:
    """It replaces nothing unasked, and a failure on the way leaves nothing behind."""
    db.scope("ann").session("s").append("user", "hi")
    target = tmp_path / "out"
    seen: list[int] = []

    def fail(count: int) -> None:
        seen.append(count)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        db.export(target, user="ann", format=name, progress=fail)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("out")] == []
    assert db.export(target, user="ann", format=name) == 2
    with pytest.raises(memdb.AlreadyExists):
        db.export(target, user="ann", format=name)
    assert db.export(target, format=name, replace=True) == 2
    assert target.stat().st_mode & 0o777 == 0o600


def test_an_unknown_format(db: MemDB, tmp_path: Path) -> None:
    """The error lists the known ones."""
    with pytest.raises(memdb.InvalidInput, match="markdown, html, csv"):
        db.export(tmp_path / "a", format="pdf")


def test_branches(db: MemDB, tmp_path: Path) -> None:
    """A branch is named by its conversation, and has its own messages."""
    session = db.scope("ann").session("trip")
    for number in range(3):
        session.append("user", f"word {number} of the tent")
    session.branch("other", 2).append("user", "another way")
    texts = {name: written(db, name, tmp_path) for name in FORMATS}

    assert "### other of trip" in texts["markdown"]
    assert "other of trip" in texts["html"]
    assert "trip (other)" in texts["csv"]
    assert all("another way" in text for text in texts.values())
