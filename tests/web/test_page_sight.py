"""Whatever is gone to is wholly in sight: nothing of it is below the head of its pane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from browser import WIDTHS, Tab
from cases import each
from web_site import opened, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from web_site import Site

ROWS = 95
READ = 60
TALK = "conversations?user=ann&session=talk"
TITLE = "What we said about the boat, its lease, its sails and its crew"
# Rows of different heights, each lower than a pane.
TEXTS = ("Short {}.", "The lease of the boat {}. " * 9, "One.\n\nTwo.\n\nThree {}.")
# Whether a row is in its pane, below the head of it.
IN_SIGHT = """(selector) => {
  const row = document.querySelector(selector), pane = row?.closest('.pane');
  if (!pane || pane.querySelector(':scope > .head') === null) return false;
  const { top, bottom } = row.getBoundingClientRect(), shown = pane.getBoundingClientRect();
  const head = pane.querySelector(':scope > .head').getBoundingClientRect();
  return top >= Math.max(head.bottom, shown.top) - 1 && bottom <= shown.bottom + 1;
}"""


def by_link(tab: Tab) -> str:
    """Open the address of a message."""
    tab.open(f"{TALK}&at={READ}")
    return f"article[data-here][data-seq='{READ}']"


def by_number(tab: Tab) -> str:
    """Type the number of a message."""
    page = tab.open(f"{TALK}&at=3")
    page.wait_for_selector("article[data-here][data-seq='3']")
    page.fill("[aria-label='Go to message number']", str(READ))
    page.press("[aria-label='Go to message number']", "Enter")
    return f"article[data-here][data-seq='{READ}']"


def by_search_hit(tab: Tab) -> str:
    """Open a hit of a search."""
    page = tab.open("search?user=ann&q=walrus")
    page.click(f"main a[href*='at={READ}']")
    return f"article[data-here][data-seq='{READ}']"


def by_back(tab: Tab) -> str:
    """Go back to a message from another view."""
    page = tab.open(f"{TALK}&at={READ}")
    page.wait_for_selector(f"article[data-here][data-seq='{READ}']")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_selector("h1:has-text('Health')")
    page.go_back()
    return f"article[data-here][data-seq='{READ}']"


def by_keys_up(tab: Tab) -> str:
    """Go up in a conversation, past the first row in sight."""
    page = tab.open(f"{TALK}&at={READ}")
    page.wait_for_selector(f"article[data-seq='{READ}']:focus")
    for _ in range(3):
        page.keyboard.press("k")
    return f"article[data-seq='{READ - 3}']:focus"


def by_keys_down(tab: Tab) -> str:
    """Go down in a conversation, past the last row in sight."""
    page = tab.open(f"{TALK}&at={READ}")
    page.wait_for_selector(f"article[data-seq='{READ}']:focus")
    for _ in range(12):
        page.keyboard.press("j")
    return f"article[data-seq='{READ + 12}']:focus"


def by_tab_back(tab: Tab) -> str:
    """Let the browser move the focus back, over the links of the rows."""
    page = tab.open(f"{TALK}&at={READ}")
    page.wait_for_selector(f"article[data-seq='{READ}']:focus")
    for _ in range(5):
        page.keyboard.press("Shift+Tab")
    return "article :focus"


def keys_in_list(place: str, rows: str, ready: str) -> Callable[[Tab], str]:
    """Return a way: down a list past its end in sight, and up again by half."""

    def way(tab: Tab) -> str:
        page = tab.open(place)
        page.wait_for_selector(f"{rows} >> nth=29")
        page.wait_for_selector(ready)  # the head has its height
        for key in "j" * 30 + "k" * 15:
            page.keyboard.press(key)
        return f"{rows}:focus"

    return way


WAYS: dict[str, Callable[[Tab], str]] = {
    "a link": by_link,
    "a number": by_number,
    "a hit of a search": by_search_hit,
    "back": by_back,
    "keys up": by_keys_up,
    "keys down": by_keys_down,
    "tab back": by_tab_back,
    "keys in conversations": keys_in_list("conversations?user=ann", "[data-session]", "main h1"),
    "keys in entries": keys_in_list("entries?user=ann", "[data-entry]", ".head .chip"),
}


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory, filled: Any) -> Iterator[Site]:
    """Serve a conversation with a long title, many others, and many entries."""
    path = filled.put(tmp_path_factory.mktemp("sight") / "trip.db", lasting=True)
    with opened(path) as db, served(db) as site:
        ann = db.scope("ann")
        for number in range(30):
            ann.session(f"s{number}").append("user", f"We talk of sail {number}.")
            ann.remember(f"Ann has the sail {number}, of {'blue ' * number}cloth.")
        talk = ann.session("talk")
        for number in range(1, ROWS + 1):
            text = TEXTS[number % 3].replace("{}", str(number))
            talk.append("user", text + (" A walrus." if number == READ else ""))
        talk.update(title=TITLE)
        yield site


@pytest.fixture(scope="module")
def tabs(talk: Site, chromium: Any) -> Iterator[dict[int, Tab]]:
    """Return a tab of each width, in which one way is tried after the other."""
    found = {
        width: Tab(chromium, talk, viewport={"width": width, "height": 800})
        for (width,) in (one.values for one in WIDTHS)
    }
    yield found
    for tab in found.values():
        errors, foreign = tab.errors, tab.foreign_requests()
        tab.context.close()
        assert errors == foreign == []


@each("way,width", [(way, *width.values) for way in WAYS.values() for width in WIDTHS])
def test_what_is_gone_to_is_wholly_in_sight(
    tabs: dict[int, Tab], way: Callable[[Tab], str], width: int
) -> None:
    """By a link, by a hit, by keys: from its first line to its last, at any width."""
    tab = tabs[width]
    row = way(tab)
    tab.page.wait_for_selector(row)
    tab.page.wait_for_function(IN_SIGHT, arg=row)
