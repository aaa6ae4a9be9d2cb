"""How the page shows a message: Markdown as elements, calls of tools as calls, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases import each
from web_site import opened, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from browser import Tab
    from web_site import Site

# The tags of what a text becomes, in their order, without the spans of words.
MARKDOWN = {
    "Plain\ntext.": "p",
    "# Title\nMore.": "p strong p",
    "Two **bold** and *slanted* words, 2 * 3 * 4.": "p strong em",
    "`a` and ``b ` c``": "p code code",
    "- one\n- two\n  - three\n\n1. a\n2. b": "ul li li ul li ol li li",
    "> said\n> twice": "blockquote p",
    "```python\n**x**\n```": "pre",
    "```\nwithout an end": "pre",
    "| a | b |\n|---|--:|\n| 1 | 2 |": "div table thead tr th th tbody tr td td",
    "a | b": "p",
    "one\n\n---\n\ntwo": "p hr p",
    "~~gone~~": "p s",
}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[here](javascript:alert(1))",
    "![x](https://example.com/x.png)",
    "`<script>` **<b>x</b>**",
    "- " * 40 + "deep",
    "> " * 40 + "deep",
    "*" * 3000,
    "`" * 3999,
    "**a*b~~c`" * 400,
    "|" * 500 + "\n" + "|-" * 250,
    "a\u202eb\u200b**c\u202e**",
]
ALLOWED = set(
    "P STRONG EM S CODE PRE UL OL LI BLOCKQUOTE HR DIV TABLE THEAD TBODY TR TH TD SPAN".split()
)
DRAW = """async (text) => {
  const script = document.querySelector('script[src]').src.replace('app.js', 'markdown.js');
  const node = (await import(script)).markdown(text);
  const all = [...node.querySelectorAll('*')];
  node.querySelectorAll('.box').forEach((one) => one.remove());
  return {tags: all.map((one) => one.tagName), names: all.flatMap((one) => one.getAttributeNames()),
    text: node.textContent};
}"""


def letters(text: str) -> str:
    return "".join(filter(str.isalpha, text))


@each("text", MARKDOWN)
def test_markdown_becomes_elements(
    reading_site: Site, open_tab: Callable[..., Tab], text: str
) -> None:
    """As people read it; what is no Markdown stays as it is."""
    tab = open_tab(reading_site)
    drawn = tab.open("health").evaluate(DRAW, text)
    tab.context.close()

    assert " ".join(tag.lower() for tag in drawn["tags"] if tag != "SPAN") == MARKDOWN[text]


def test_hostile_text_stays_text(reading_site: Site, open_tab: Callable[..., Tab]) -> None:
    """No other element, no attribute that does something, and no letter is lost."""
    page = open_tab(reading_site).open("health")
    for text in HOSTILE:
        drawn = page.evaluate(DRAW, text)

        assert set(drawn["tags"]) <= ALLOWED
        assert set(drawn["names"]) <= {"class", "dir", "scope", "start", "tabindex", "title"}
        assert letters(drawn["text"]) == letters(text)


def test_a_call_reads_as_a_call(tmp_path: Path, filled: Any, open_tab: Callable[..., Tab]) -> None:
    """With its arguments by name, and what came of it; all that is stored is one click away."""
    with opened(filled.put(tmp_path / "calls.db")) as db, served(db) as site:
        chat = db.scope("ann").session("calls")
        call = {
            "type": "tool_use",
            "id": "1",
            "name": "read",
            "input": {"path": "a.pdf", "page": 4},
        }
        chat.append({"role": "assistant", "content": [{"type": "text", "text": "I *look*."}, call]})
        result = {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": "The rent.",
            "is_error": True,
        }
        chat.append({"role": "user", "content": [result]})
        page = open_tab(site).open("conversations?user=ann&session=calls")
        page.wait_for_selector("article em:has-text('look')")

        shown = page.locator(".call").all_inner_texts()
        assert shown == ["→ read(path=a.pdf, page=4)", "← failed: The rent."]
        page.click("article >> nth=0 >> text=As stored")
        page.wait_for_selector("article pre:has-text('tool_call')")


def test_an_answer_shows_what_it_was_given(
    tmp_path: Path, filled: Any, open_tab: Callable[..., Tab]
) -> None:
    """One click lists the rows of the context before it; a message names its writer."""
    with opened(filled.put(tmp_path / "given.db")) as db, served(db) as site:
        db.settings.update(context_log_days=7)
        db._db.opened_by = "mail agent"
        chat = db.scope("ann").session("given")
        chat.append("user", "Where is the harbour?")
        chat.context(2_000)
        chat.append("assistant", "In Bergen.")
        db.jobs.run()
        page = open_tab(site).open("conversations?user=ann&session=given")
        page.click("article[data-role=assistant] summary:has-text('What it was given')")
        page.wait_for_selector("article[data-role=assistant] li:has-text('Where is the harbour?')")
        db.settings.update(context_log_days=0)
        page.reload()
        page.wait_for_selector("article[data-role=assistant]")
        assert page.locator("summary:has-text('What it was given')").count() == 0
        assert "written by mail agent" in page.locator("article[data-role=assistant]").inner_text()
