"""What a person writes on the page: each task in at most four clicks, and by the keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from web_site import Site, opened, served

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from browser import Tab

MOST_CLICKS = 4
# By a selector, or by words behind "=".
IS_FOCUSED = """(target) => target.startsWith("=")
  ? document.activeElement.textContent.includes(target.slice(1))
  : Boolean(document.activeElement.closest(target))"""


@pytest.fixture(scope="module")
def writing_site(tmp_path_factory: pytest.TempPathFactory, filled: Any) -> Iterator[Site]:
    """Return a served copy for all tests of this module."""
    path = filled.put(tmp_path_factory.mktemp("writing") / "trip.db", lasting=True)
    with opened(path) as db, served(db) as site:
        ann = db.scope("ann")
        ann.remember("The rent is 14,500 SEK.")
        ann.remember("Correction: the rent is 15,400 SEK, not 14,500.")
        ann.remember("Ann likes rice.", trust="untrusted")
        for name in ("gone", "lost"):
            ann.session(name).append("user", f"The key of the shed is {name}.")
        ann.artifacts.save("user:route.md", "Day 1: Oslo")
        ann.artifacts.save("user:route.md", "Day 1: Bergen")
        yield site


# From the list of conversations: a click, a key (with what has the focus then), a text that is
# typed over what stands in the field with the focus, and what is to be seen.
TASKS = {
    "add": """
        click text='+ Add'
        type Ann sails on Sundays.
        click dialog >> text=Remember
        see main .read:has-text('Ann sails on Sundays.')
    """,
    "add by keys": """
        key n
        type Ann rows on Mondays.
        key Control+Enter
        see main .read:has-text('Ann rows on Mondays.')
    """,
    "rename": """
        click a[data-session=old]
        click main >> text=Actions
        click dialog >> text=Rename
        type The lease
        click dialog button.primary
        see h2:has-text('The lease')
        see a[data-session=old]:has-text('The lease')
    """,
    "rename by keys": """
        key j a[data-session=old]
        key Enter
        see article
        key e
        type The rent
        key Enter
        see h2:has-text('The rent')
    """,
    "correct": """
        click a[data-session=trip]
        click [aria-label='Correct message 12']
        type Line 11: leave the stove at home.
        click dialog button.primary
        see article:has-text('leave the stove at home')
    """,
    "correct by keys": """
        key j a[data-session=trip]
        key Enter
        see article
        key k article[data-seq='13']
        key e
        type A map of Oslo.
        key Control+Enter
        see article:has-text('A map of Oslo.')
    """,
    "accept": """
        click nav.rail >> text=Entries
        click text=/^To decide/
        click .question:has-text('15,400') >> text=Accept
        see .toast:has-text('the older one is history')
    """,
    "reject by keys": """
        key g
        key e
        see text=/^To decide/
        key Tab =To decide
        key Enter
        see .question:has-text('It comes from the assistant')
        key j =Ann likes rice.
        key r
        see .toast:has-text('nothing recalls it')
    """,
    "import": """
        click text='+ Add'
        file click [aria-label='File to import']
        see dialog .ok:has-text('Added: 1 conversation, 2 messages.')
        click dialog >> text=Show the conversations
        see a[data-session]:has-text('How deep is the fjord?')
    """,
    "import by keys": """
        key n
        key Tab [type=file]
        file key Space
        see dialog .ok:has-text('Here already: 2.')
    """,
    "find": """
        click header input
        type fly to oslo
        see [role=listitem] mark:text('fly')
    """,
    "find by keys": """
        key /
        type fly to oslo
        see [role=listitem] mark:text('fly')
    """,
    "filter": """
        click [aria-label='Filter conversations by words']
        type stove
        see a[data-session=trip] mark:text('stove')
        none a[data-session=old]
    """,
    "forget with proof": """
        click a[data-session=gone]
        click main >> text=Actions
        click dialog >> text=Forget
        click dialog button:has-text('Forget 1 message')
        see dialog .ok:has-text('Proof')
    """,
    "forget with proof by keys": """
        key j a[data-session=lost]
        key #
        see dialog button:has-text('Forget 1 message')
        key Tab =Forget 1 message
        key Enter
        see dialog .ok:has-text('Proof')
    """,
    "export": """
        click nav.rail >> text=Entries
        click main summary >> text=Export
        download click main >> text=JSONL
    """,
    "export by keys": """
        key >
        write export this
        see [role=option]:has-text('Export this memory')
        download key Enter
    """,
    "compare versions": """
        click nav.rail >> text=Artifacts
        click a[data-key]:has-text('route.md')
        choose v1
        see .diff .added
    """,
    "compare versions by keys": """
        key g
        key a
        see a[data-key]
        key j =▤ user:route.md
        key Enter
        see main select
        key Tab main select
        key ArrowDown
        see .diff .added
    """,
    "see a context": """
        click nav.rail >> text=Context
        see svg.segments
        see ol[aria-label=Pieces] > li
    """,
    "see a context by keys": """
        key g
        key x
        see ol[aria-label=Pieces] > li
    """,
}
CHAT = "\n".join(
    f'{{"session": "fjord", "role": "{role}", "text": "{text}"}}'
    for role, text in (("user", "How deep is the fjord?"), ("assistant", "1,300 metres."))
)
FILE = {"name": "fjord.jsonl", "mimeType": "application/jsonl", "buffer": CHAT.encode()}


def act(page: Any, steps: str) -> int:
    """Do what a task says, and return how often that clicks."""
    return sum(
        do(page, *step.split(" ", 1)) for step in filter(None, map(str.strip, steps.splitlines()))
    )


def do(page: Any, what: str, rest: str) -> int:
    if what == "file":
        from playwright.sync_api import TimeoutError as TooLate

        for is_last in (False, False, True):  # a busy Chromium swallows one now and then
            try:
                with page.expect_file_chooser(timeout=20_000) as chosen:
                    clicks = act(page, rest)
                break
            except TooLate:
                if is_last:
                    raise
        chosen.value.set_files(FILE)
        return clicks
    if what == "download":
        with page.expect_download():
            return act(page, rest)
    if what in ("see", "none"):
        page.wait_for_selector(rest, state="visible" if what == "see" else "detached")
    elif what == "click":
        page.click(rest)
    elif what == "choose":
        page.select_option("main select", label=rest)
    elif what == "key":
        press(page, *rest.split(" ", 1))
    else:
        write(page, rest, is_over=what == "type")
    return int(what in ("click", "choose"))


def write(page: Any, text: str, *, is_over: bool) -> None:
    """Type into the field that has the focus, or over what stands in it."""
    page.wait_for_selector(":is(textarea, input):focus")
    if is_over:
        page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def press(page: Any, key: str, target: str = "") -> None:
    """Press a key, again until *target* has the focus."""
    for _ in range(60):
        page.keyboard.press(key)
        if not target or page.evaluate(IS_FOCUSED, target):
            return
    raise AssertionError(f"{key} does not lead to {target}")


@each("name", TASKS)
def test_a_task_takes_four_clicks_or_only_keys(
    writing_site: Site, open_tab: Callable[..., Tab], name: str
) -> None:
    """What people do most is near, and needs no mouse."""
    tab = open_tab(writing_site)
    page = tab.open("conversations?user=ann")
    page.wait_for_selector("a[data-session]")
    clicks = act(page, TASKS[name])
    tab.context.close()

    assert clicks <= (0 if name.endswith("by keys") else MOST_CLICKS)


def test_what_was_written_can_be_undone(writing_site: Site, open_tab: Callable[..., Tab]) -> None:
    """A fact goes again; a message says the old words, with all else that it had."""
    ann = writing_site.app.db.scope("ann")
    before = ann.session("trip").get(1)
    page = open_tab(writing_site).open("conversations?user=ann&session=trip&at=1")
    page.wait_for_selector("article[data-here]")
    act(page, "click [aria-label='Correct message 1']\ntype We sail.\nkey Control+Enter")
    page.click(".toast >> text=Undo")
    page.wait_for_selector(".toast:has-text('Undone.')")
    act(page, "key n\ntype Ann has an oar.\nkey Control+Enter\nsee .toast >> text=Undo")
    page.click(".toast >> text=Undo")
    page.wait_for_selector(".toast:has-text('Undone.')")

    after = ann.session("trip").get(1)
    assert (after.text, after.author, after.role) == (before.text, before.author, before.role)
    assert "Ann has an oar." not in [one.text for one in ann.entries.list()]


def test_an_empty_file_begins_on_the_page(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """It takes the name that the server offers for whose memory it becomes."""
    with memdb.open(tmp_path / "empty.db") as db, served(db, user="ann") as site:
        page = open_tab(site).open("conversations")
        act(page, "click text='+ Add'\ntype Ann sails.\nclick dialog >> text=Remember")
        page.wait_for_selector("main .read:has-text('Ann sails.')")

        assert [one.text for one in db.scope("ann").entries.list()] == ["Ann sails."]


def test_an_empty_file_that_fills_throws_no_words_away(
    tmp_path: Path, open_tab: Callable[..., Tab]
) -> None:
    """Somebody else begins its memory while a fact is typed; the page shows it, and keeps those."""
    with memdb.open(tmp_path / "empty.db") as db, served(db, user="ann") as site:
        page = open_tab(site).open("conversations")
        page.wait_for_selector(".top:has-text('live')")
        act(page, "click text='+ Add'\ntype Ann sails.")
        db.scope("ann").session("trip").append("user", "We fly.")
        page.wait_for_selector("a[data-session=trip]")
        act(page, "click dialog >> text=Remember")
        page.wait_for_selector("main .read:has-text('Ann sails.')")


def test_a_read_only_page_offers_nothing_to_write(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab]
) -> None:
    """Neither buttons nor keys."""
    site = make_site(mode="read", read_only=True)
    page = open_tab(site).open("conversations?user=ann&session=trip")
    page.wait_for_selector("article")
    page.keyboard.press("n")
    page.keyboard.press("e")

    assert page.locator("dialog, button:text('Add'):visible, [aria-label^=Correct]").count() == 0
