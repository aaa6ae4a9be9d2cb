"""What is read stays in its place: rows before and after it, heads that grow, more digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from browser import WIDTHS
from test_page_views import settle

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from browser import Tab
    from web_site import Site

ROWS = 95
READ = 60
# Rows of very different heights, so that no estimate is right.
TEXTS = ("Short {}.", "The lease of the boat {}. " * 30, "One.\n\nTwo.\n\nThree {}.")
# Waits two frames: what was measured in the first is drawn in the second.
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def say(site: Site, first: int, last: int) -> None:
    """Append the messages *first* to *last* at once."""
    site.app.db.scope("ann").session("talk").extend(
        {
            "role": "user" if number % 2 else "assistant",
            "text": TEXTS[number % 3].replace("{}", str(number)),
        }
        for number in range(first, last + 1)
    )


def add_rows(page: Any, site: Site, by: int) -> None:
    """Append *by* rows, and wait until the page has them."""
    session = site.app.db.scope("ann").session("talk")
    last = session.last_seq + by
    say(site, last - by + 1, last)
    page.wait_for_selector(f"article[data-seq='{READ}'][aria-setsize='{last}']")


def many_times(page: Any, site: Site) -> None:
    """Append some rows, again and again."""
    for _ in range(5):
        add_rows(page, site, 12)


def load_before(page: Any, _: Site) -> None:
    """Scroll, so that rows above are loaded whose heights nobody knew."""
    pane = "const pane = document.querySelector('[aria-label=Messages]');"
    by = page.evaluate(
        f"(() => {{ {pane} const row = document.querySelector('article[data-seq=\"51\"]');"
        " const by = row.getBoundingClientRect().top - pane.getBoundingClientRect().top;"
        " pane.scrollTop += by; return by; })()"
    )
    page.wait_for_selector("article[data-seq='41']", state="attached")
    page.evaluate(FRAMES)
    page.evaluate(f"(() => {{ {pane} pane.scrollTop -= {by}; }})()")


def head_grows(page: Any, _: Site) -> None:
    """Select a row: the head gets the buttons of the selection."""
    page.evaluate("document.querySelectorAll('article input[type=checkbox]')[0].click()")
    page.wait_for_selector("text=1 selected")


def title_grows(page: Any, _: Site) -> None:
    """Give it a heading that takes more lines."""
    page.evaluate("document.querySelector('[aria-label=Messages] h2').append(' word'.repeat(90))")


def text_grows_before(page: Any, _: Site) -> None:
    """Make a row above higher, as when an image in it is loaded."""
    row = f"article[data-seq='{READ - 2}']"
    page.evaluate(f"document.querySelector(\"{row}\").append('w '.repeat(900))")


def forget_before(page: Any, site: Site) -> None:
    """Remove rows above, as another program does."""
    site.app.db.scope("ann").session("talk").forget(seqs=[READ - 1, READ - 3, READ - 4])
    page.wait_for_selector(f"article[data-seq='{READ - 1}']", state="detached")


CHANGES: dict[str, Callable[[Any, Site], None]] = {
    "rows after": lambda page, site: add_rows(page, site, 3),
    "three digits": lambda page, site: add_rows(page, site, 10),
    "rows before are loaded": load_before,
    "a comma and four digits": lambda page, site: add_rows(page, site, 1200),
    "many times": many_times,
    "a text above grows": text_grows_before,
    "the head grows": head_grows,
    "forgotten before": forget_before,
    "the title grows": title_grows,
}


@pytest.fixture
def talk(make_site: Callable[..., Site]) -> Site:
    """Serve a conversation of rows of many heights."""
    site = make_site()
    say(site, 1, ROWS)
    return site


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_read_does_not_move(talk: Site, open_tab: Callable[..., Tab], width: int) -> None:
    """Whatever comes before or after it, and whatever the head says."""
    tab = open_tab(talk, viewport={"width": width, "height": 800})
    page = tab.open(f"conversations?user=ann&session=talk&at={READ}")
    page.wait_for_selector(f"article[data-here][data-seq='{READ}']")
    page.wait_for_selector("text=● live")
    settle(page)
    page.evaluate(FRAMES)
    row = page.locator(f"article[data-seq='{READ}']")
    before = row.bounding_box()
    for name, change in CHANGES.items():
        change(page, talk)
        settle(page)
        page.evaluate(FRAMES)
        after = row.bounding_box()
        assert abs(after["y"] - before["y"]) <= 1, (name, before, after)  # a pixel of rounding
        assert {**after, "y": 0} == {**before, "y": 0}, name


@pytest.mark.parametrize("width", WIDTHS)
def test_the_head_of_a_conversation_keeps_its_height(
    talk: Site, open_tab: Callable[..., Tab], width: int
) -> None:
    """While one reads from the first row to the last."""
    tab = open_tab(talk, viewport={"width": width, "height": 800})
    page = tab.open("conversations?user=ann&session=talk&at=1")
    page.wait_for_selector("article[data-here]")
    heights = set()
    for seq in (1, 9, 10, ROWS):
        page.fill("[aria-label='Go to message number']", str(seq))
        page.press("[aria-label='Go to message number']", "Enter")
        page.wait_for_selector(f"article[data-here][data-seq='{seq}']")
        settle(page)
        heights.add(page.locator("[aria-label=Messages] > .head").bounding_box()["height"])

    assert len(heights) == 1, heights


def test_a_row_with_the_focus_is_shown_as_it_is_now(
    talk: Site, open_tab: Callable[..., Tab]
) -> None:
    """Rows beside it come and go; the focus stays, and what is open in a row stays open."""
    tab = open_tab(talk)
    page = tab.open(f"conversations?user=ann&session=talk&at={ROWS}")
    page.wait_for_selector(f"article[data-seq='{ROWS}']:focus")
    page.wait_for_selector("text=● live")
    say(talk, ROWS + 1, ROWS + 2)
    page.wait_for_selector(f"article[data-seq='{ROWS + 2}']")
    assert page.evaluate("document.activeElement.dataset.seq") == str(ROWS)

    talk.app.db.scope("ann").session("talk").forget(seqs=[ROWS - 1])
    page.wait_for_selector(f"article[data-seq='{ROWS - 1}']", state="detached")
    assert page.evaluate("document.activeElement.dataset.seq") == str(ROWS)

    talk.app.db.scope("ann").session("talk").forget(seqs=[ROWS])
    page.wait_for_selector(f"article[data-seq='{ROWS}']", state="detached")
    page.wait_for_selector(f"article[data-seq='{ROWS + 1}']:focus")


def test_an_open_message_is_not_drawn_anew(talk: Site, open_tab: Callable[..., Tab]) -> None:
    """A selection of words and an open part outlive what others write."""
    session: memdb.Session = talk.app.db.scope("ann").session("talk")
    parts = [{"type": "text", "text": "Look."}, {"type": "tool_call", "name": "find"}]
    session.append("assistant", "Look.", parts=parts)
    tab = open_tab(talk)
    page = tab.open(f"conversations?user=ann&session=talk&at={ROWS + 1}")
    page.wait_for_selector("text=● live")
    page.click(f"article[data-seq='{ROWS + 1}'] summary")
    say(talk, ROWS + 2, ROWS + 3)
    page.wait_for_selector(f"article[data-seq='{ROWS + 3}']")

    assert page.locator(f"article[data-seq='{ROWS + 1}'] details[open]").count() == 1
