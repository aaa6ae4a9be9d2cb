"""
HTML: one page that needs nothing else, and on which no stored text is anything but text.

It has no script and asks nothing of the network: its Content-Security-Policy allows styles of
its own and pictures that stand in it. Every text is escaped, names of anchors are numbers.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from memdb.formats.writers.shared import SECTIONS, label_of, one_line, time_of, title_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# Pictures that a page may hold; SVG can hold scripts and links.
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
HEAD = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Memory</title>
<style>
:root {{ color-scheme: light dark; --line: #8885; --user: #2a6fdb22; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 52rem; padding: 1rem; }}
summary {{ cursor: pointer; font-weight: 600; padding: .4rem 0; }}
details, article {{ border-top: 1px solid var(--line); }}
article {{ padding: .5rem; }}
article.user {{ background: var(--user); }}
.about {{ font-size: .8rem; margin: 0; opacity: .75; }}
.words {{ margin: .2rem 0; overflow-wrap: anywhere; unicode-bidi: plaintext; }}
.words {{ white-space: pre-wrap; }}
img {{ max-width: 100%; }}
@media print {{ details > * {{ display: block; }} }}
</style>
</head>
<body>
<p><a href="#contents">Contents</a></p>
<main>
"""
END = "</ul>\n</nav>\n</body>\n</html>\n"


def write(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the page."""
    contents: list[tuple[int, str]] = []
    section, is_open = "", False
    yield HEAD
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
    yield END


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
