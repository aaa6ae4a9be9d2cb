"""
Documents for people: Markdown, HTML and CSV, made from the lines of an export one at a time.

- Markdown: one file with a heading per conversation and each text in a quotation. A text stays
  inside its quotation, whatever it contains: none of its lines is a heading or the end of a list.
  `<` is written so that no reader takes it for HTML, and `![` so that no reader fetches a picture.
  `memdb import` reads it as a note, like any Markdown file.
- HTML: a single page without other files, on which every stored text is shown as text. The page
has no
  script and makes no network request: its Content-Security-Policy allows only its own styles and
  embedded pictures. Every text is escaped, and names of anchors are numbers.
- CSV: one table with a row per message, entry, summary, item and state. A spreadsheet runs a cell
  that begins like a formula, so memdb puts an apostrophe before it, which `memdb import` removes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from memdb.text.resources import read_text
from memdb.text.trust import TRUST
from memdb.text.validate import choice_value, path_value
from memdb.transfer.export import PROGRESS_LINES, list_lines, whole_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from memdb.engine.base import Engine
    from memdb.records.scopes import ScopeRef

    Writer = Callable[[Iterable[dict[str, Any]]], Iterator[str]]


# Lines that say nothing to a reader.
UNSHOWN = frozenset({"memdb", "settings", "artifact_part", "artifact_name", "tombstone", "end"})


def write_document(
    db: Engine,
    owners: Sequence[ScopeRef],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 (the word that users of files use)
    *,
    replace: bool = False,
    progress: Callable[[int], object] | None = None,
) -> int:
    """
    Write everything of *owners* to *path* for people to read; return the number of records.

    Args:
        format: One of `WRITERS`.
        replace: Overwrite a file that is there.
        progress: Called with the number of records so far, every 1,000.

    Raises:
        InvalidInput: there is no such format.
        AlreadyExists: something is at *path*, and *replace* is False.
        FileError: *path* cannot be written, or is a database.
    """
    write = WRITERS[choice_value(format, "format", tuple(WRITERS))]
    count = 0

    def counted(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        nonlocal count
        for line in lines:
            if line["kind"] not in UNSHOWN:
                count += line["kind"] != "scope"
                yield line
                if progress is not None and count % PROGRESS_LINES == 0:
                    progress(count)

    with whole_file(path_value(path), replace=replace) as file, db.read() as tx:
        lines = list_lines(tx, owners, embeddings=False, with_settings=False)
        for text in write(counted(lines)):
            file.write(text.encode())
    return count


# What a section of a user's memory is called, by the kind of its first line.
SECTIONS = {
    "session": "Conversations",
    "branch": "Branches of conversations",
    "summary": "Summaries",
    "entry": "What is remembered",
    "artifact": "Artifacts",
    "item": "Items",
    "state": "State",
}

# What stands between the parts of a label, and before those of an entry.
SEPARATOR = " · "
KEY, KEYWORDS, TRUSTED, UNTIL = "key: ", "keywords: ", "trust: ", "until "
KEYWORD_MARK = "; "
OLD = "no longer so"

# Control characters, and marks that turn the direction of what follows.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def time_of(line: dict[str, Any], *, is_exact: bool = False) -> str:
    """
    Return the time of a line as "2025-03-01 09:30:00Z"; "" if it has none.

    With *is_exact* milliseconds follow, unless they are 0. After the year 9999 it is "N ms".
    """
    given = line.get("created_ms")
    if given is None:
        return ""
    try:
        moment = datetime.fromtimestamp(given / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{given} ms"
    rest = f".{given % 1000:03}" if is_exact and given % 1000 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{rest}Z"


def shown(text: str) -> str:
    """Return a text with U+FFFD for invisible characters; tabs and line ends stay."""
    return _HIDDEN.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Return a text on one line."""
    return " ".join(shown(str(text)).split())


def title_of(line: dict[str, Any]) -> str:
    """Return the heading of a conversation or a branch."""
    return one_line(line.get("title") or line["name"]) or "unnamed"


def parts_of(line: dict[str, Any], *, is_exact: bool = False) -> list[str]:
    """Return the words of the label before a record: speaker, place, time."""
    kind = line["kind"]
    words: list[object] = []
    if kind == "message":
        words = [f"#{line['seq']}", line["role"], line.get("author")]
    elif kind == "summary":
        words = [line["session"], f"#{line['first_seq']} to #{line['last_seq']}"]
    elif kind == "entry":
        words = [line["category"], *_about_entry(line)]
    elif kind == "artifact":
        words = [line["name"], f"version {line.get('version', 1)}", line.get("mime")]
    elif kind == "item":
        words = ["/".join(map(str, line["namespace"])), line["key"]]
    elif kind == "state":
        words = [line["key"]]
    found = (*words, time_of(line, is_exact=is_exact))
    return [one_line(word) for word in found if word not in (None, "")]


def _about_entry(line: dict[str, Any]) -> Iterator[str]:
    """Yield what identifies an entry, and its state."""
    if line.get("key"):
        yield f"{KEY}{line['key']}"
    if line.get("keywords"):
        yield f"{KEYWORDS}{KEYWORD_MARK.join(line['keywords'])}"
    if line.get("trust", TRUST[0]) != TRUST[0]:
        yield f"{TRUSTED}{line['trust']}"
    if line.get("expires_ms") is not None:
        yield f"{UNTIL}{time_of({'created_ms': line['expires_ms']}, is_exact=True)}"
    if not line.get("active", True):
        yield OLD


def label_of(line: dict[str, Any]) -> str:
    """Return `parts_of` as one text."""
    return SEPARATOR.join(parts_of(line))


def words_of(line: dict[str, Any]) -> str:
    """Return the words of a record: its text, or its value as JSON."""
    if isinstance(line.get("text"), str):
        return shown(line["text"])
    if line["kind"] == "artifact":
        return "(bytes that are no text)"
    if "value" in line:
        return shown(json.dumps(line["value"], ensure_ascii=False, indent=1))
    return "(bytes)" if "data" in line else ""


COLUMNS = (
    *("kind", "app", "user", "session", "title", "number", "time", "role", "author", "text"),
    *("category", "key", "keywords", "state", "trust", "expires", "id", "uid"),
)

# What a cell begins with that a spreadsheet runs, also in full width, and what it may stand behind.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
BEFORE_FORMULA = "' \t\r\n\v\f\ufeff\u00a0"
MARK = "\ufeff"  # by which spreadsheets know UTF-8


def write_csv(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the table."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)

    def row(cells: Iterable[object]) -> str:
        writer.writerow([guarded("" if cell is None else str(cell)) for cell in cells])
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    yield MARK + row(COLUMNS)
    about: dict[str, Any] = {}
    titles: dict[str, Any] = {}
    for line in lines:
        kind = line["kind"]
        if kind == "scope":
            about, titles = {"app": line["app"], "user": line["user"]}, {}
        elif kind == "session":
            titles[line["name"]] = line.get("title")
        elif kind not in ("branch", "artifact"):
            title = titles.get(line.get("session", ""))
            values = {**about, **_cells(line), "kind": kind, "title": title}
            yield row(values.get(column) for column in COLUMNS)


def _cells(line: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a record by column."""
    cells = {name: line.get(name) for name in ("session", "role", "author", "text", "category")}
    cells |= {
        "key": line.get("key"),
        "time": time_of(line, is_exact=True),
        "number": line.get("seq"),
    }
    cells |= {"id": line.get("external_id"), "uid": line.get("uid")}
    if line.get("branch") is not None:
        cells["session"] = f"{line['session']} ({line['branch']})"
    if line["kind"] == "summary":
        cells["number"] = f"{line['first_seq']}..{line['last_seq']}"
    if line["kind"] == "entry":
        cells["keywords"] = KEYWORD_MARK.join(line.get("keywords") or ())
        cells["state"] = None if line.get("active", True) else OLD
        cells["trust"] = line.get("trust")
        cells["expires"] = time_of({"created_ms": line.get("expires_ms")}, is_exact=True)
    if line["kind"] in ("item", "state") and "value" in line:
        cells["text"] = json.dumps(line["value"], ensure_ascii=False)
        cells["category"] = "/".join(map(str, line.get("namespace", ())))
    return cells


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet would run a cell, also without apostrophes before it."""
    return cell.lstrip(BEFORE_FORMULA).startswith(FORMULA)


def guarded(cell: str) -> str:
    """
    Return a cell in a form that no spreadsheet runs.

    >>> guarded("=1+1"), guarded("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{cell}" if is_formula(cell) else cell


def unguarded(cell: str) -> str:
    """
    Return a cell as it was before `guarded`.

    >>> unguarded(guarded("'=1")), unguarded("'quoted'")
    ("'=1", "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and is_formula(cell) else cell


# Pictures that a page may hold; SVG can hold scripts and links.
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

HTML_END = "</ul>\n</nav>\n</body>\n</html>\n"


def write_html(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the page."""
    contents: list[tuple[int, str]] = []
    section, is_open = "", False
    yield read_text(__file__, "page.html")
    for line in lines:
        kind = line["kind"]
        starts = kind in ("session", "branch", "scope") or (
            kind in SECTIONS and SECTIONS[kind] != section
        )
        if starts and is_open:
            yield "</details>\n"
            is_open = False
        if kind == "scope":
            section = ""
            yield f"<h1>Memory of {_plain(line['user'] or 'all users')}</h1>\n"
            yield f"<p class=about>App {_plain(line['app'])}</p>\n"
            continue
        if kind in SECTIONS and SECTIONS[kind] != section:
            section = SECTIONS[kind]
            yield f"<h2>{section}</h2>\n"
        if starts:
            of = f" of {one_line(line['session'])}" if kind == "branch" else ""
            is_talk = kind in ("session", "branch")
            title = f"{title_of(line)}{of}" if is_talk else section
            contents.append((len(contents) + 1, title))
            yield f'<details id="c{len(contents)}"><summary>{_plain(title)}</summary>\n'
            is_open = True
            if is_talk:
                yield f"<p class=about>{_plain(line['name'])} · {time_of(line)}</p>\n"
                continue
        yield _article(line)
    if is_open:
        yield "</details>\n"
    yield '</main>\n<nav id="contents">\n<h2>Contents</h2>\n<ul>\n'
    for number, title in contents:
        yield f'<li><a href="#c{number}">{_plain(title)}</a></li>\n'
    yield HTML_END


def _article(line: dict[str, Any]) -> str:
    """Return a record."""
    role = ' class="user"' if line.get("role") == "user" else ""
    about = f"<p class=about>{_plain(label_of(line))}</p>"
    if line["kind"] == "artifact" and line.get("mime") in PICTURES and line.get("data"):
        # Base64 of the export: letters, digits, + / and = only.
        source = f"data:{line['mime']};base64,{escape(line['data'], quote=True)}"
        return f'<article>{about}<img alt="{_plain(line["name"])}" src="{source}"></article>\n'
    words = escape(words_of(line), quote=True)
    return f'<article{role}>{about}<p class=words dir="auto">{words}</p></article>\n'


def _plain(text: object) -> str:
    return escape(one_line(text), quote=True)


_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=(?:amp;)*lt;)")
_PICTURE = re.compile(r"(?<!\\)(\\*)!(?=\[)")
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def write_markdown(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the file."""
    section = ""
    for line in lines:
        kind = line["kind"]
        if kind == "scope":
            section = ""
            yield f"# Memory of {plain(line['user'] or 'all users')}\n\n"
            yield f"App {plain(line['app'])}\n\n"
            continue
        if kind in SECTIONS and SECTIONS[kind] != section:
            section = SECTIONS[kind]
            yield f"## {section}\n\n"
        if kind in ("session", "branch"):
            of = f" of {plain(line['session'])}" if kind == "branch" else ""
            yield f"### {plain(title_of(line))}{of}\n\n"
            name = f"{line['session']} ({line['name']})" if kind == "branch" else line["name"]
            yield f"{plain(name)}{SEPARATOR}{time_of(line)}\n\n"
            continue
        label = SEPARATOR.join(map(plain, parts_of(line, is_exact=True)))
        yield f"**{label}**\n\n{quoted(words_of(line))}\n\n"


def plain(text: object) -> str:
    """Return a text on one line in which no character is markup."""
    return _MARKS.sub(r"\\\1", one_line(text)).replace("·", "&middot;")


def quoted(text: str) -> str:
    """Return a text as a quotation."""
    harmless = _TAG.sub("&lt;", _ENTITY.sub("&amp;", text))
    harmless = _PICTURE.sub(lambda found: f"{found[1] * 2}\\!", harmless)
    return "\n".join(f"> {line}" if line else ">" for line in harmless.split("\n"))


WRITERS: dict[str, Writer] = {"markdown": write_markdown, "html": write_html, "csv": write_csv}
