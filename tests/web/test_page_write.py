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
# By a selector, or by its words.
IS_FOCUSED = """(target) => CSS.supports(`selector(${target})`)
  ? Boolean(document.activeElement.closest(target))
  : document.activeElement.textContent.includes(target)"""


@pytest.fixture(scope="module")
def writing_site(tmp_path_factory: pytest.TempPathFactory, filled: Any) -> Iterator[Site]:
    """Return a served copy for all tests of this module."""
    path = filled.put(tmp_path_factory.mktemp("writing") / "trip.db", lasting=True)
    with opened(path) as db, served(db) as site:
        ann = db.scope("ann")
        ann.remember("The rent is 14,500 SEK.")
        ann.remember("Correction: the rent is 15,400 SEK, not 14,500.")
        ann.remember("Ann likes rice.", trust="untrusted")
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
        tab To decide
        key Enter
        see .question:has-text('No user said it')
        key j Ann likes rice.
        key r
        see .toast:has-text('nothing recalls it')
    """,
}


def act(page: Any, steps: str) -> int:
    """Do what a task says, and return how often that clicks."""
    clicks = 0
    for step in filter(None, map(str.strip, steps.splitlines())):
        what, _, rest = step.partition(" ")
        if what == "click":
            page.click(rest)
            clicks += 1
        elif what == "see":
            page.wait_for_selector(rest)
        elif what == "type":
            page.wait_for_selector("dialog :is(textarea, input):focus")
            page.keyboard.press("Control+a")
            page.keyboard.insert_text(rest)
        elif what == "tab":  # to a button, by the begin of its name
            while not page.evaluate("document.activeElement.textContent").startswith(rest):
                page.keyboard.press("Tab")
        else:
            key, _, target = rest.partition(" ")
            page.keyboard.press(key)
            for _ in range(30):
                if not target or page.evaluate(IS_FOCUSED, target):
                    break
                page.keyboard.press(key)
            else:
                raise AssertionError(f"{key} does not lead to {target}")
    return clicks


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
