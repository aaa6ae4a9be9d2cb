"""What arrives late, or from elsewhere, takes neither the focus, nor the letters, nor the place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from browser import Tab

PLACE = "document.querySelector('[aria-label=Messages]').scrollTop"
FOCUS = "document.activeElement.tagName"

# Views that give the focus to what they opened: (address before, link, request that is late).
OPENINGS = {
    "conversation": ("conversations?user=ann", "[data-session=trip]", "**/api/v1/session?*"),
    "message": ("search?user=ann&q=stove", "a[href*='at=']", "**/api/v1/messages?*"),
    "entry": ("entries?user=ann", "a[data-entry]", "**/api/v1/entry?*"),
    "artifact": ("artifacts?user=ann", "[data-key]", "**/api/v1/artifact/versions?*"),
    "view": ("conversations?user=ann", "nav >> text=Health", "**/views/health.js"),
}


class Held:
    """Requests of a pattern, held back until they may go on."""

    def __init__(self, page: Any, pattern: str) -> None:
        """Hold from here on."""
        self._routes: list[Any] = []
        self._page, self._pattern = page, pattern
        page.route(pattern, lambda route: self._routes.append(route))

    def wait(self) -> None:
        """Wait until there is one."""
        for _ in range(3000):
            if self._routes:
                return
            self._page.wait_for_timeout(20)
        raise AssertionError(f"nobody asks for {self._pattern}")

    def go_on(self) -> None:
        """Let them go, and all that come."""
        for route in self._routes:
            route.continue_()
        self._page.unroute(self._pattern)


@pytest.mark.parametrize("name", OPENINGS)
def test_what_loads_takes_no_focus_from_a_field(tab: Tab, name: str) -> None:
    """The letters of a query stay letters: none of them becomes a key of the view."""
    before, link, pattern = OPENINGS[name]
    page = tab.open(before)
    page.wait_for_selector(link)
    late = Held(page, pattern)
    page.locator(link).first.click()
    late.wait()
    page.keyboard.press("/")
    assert page.evaluate(FOCUS) == "INPUT"
    theme = page.evaluate("document.documentElement.dataset.theme ?? ''")
    page.keyboard.type("t")
    late.go_on()
    page.wait_for_load_state("networkidle")
    page.keyboard.type("g")

    assert page.evaluate(FOCUS) == "INPUT"
    assert page.input_value("header input").endswith("g")
    assert page.evaluate("document.documentElement.dataset.theme ?? ''") == theme


def test_letters_typed_while_the_search_loads_are_searched(tab: Tab) -> None:
    """The box, the address and the hits say the same."""
    late = Held(tab.page, "**/views/search.js")
    page = tab.open("conversations?user=ann")
    page.wait_for_selector("[data-session=trip]")  # keys are heard from here on
    page.keyboard.press("/")
    page.keyboard.type("ren")
    late.wait()
    page.keyboard.type("t was")
    late.go_on()
    page.wait_for_selector("[role=listitem]:has-text('The rent was due')")
    page.wait_for_url(re.compile("q=rent"))

    assert page.input_value("header input") == "rent was"


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 360])
def test_a_message_from_elsewhere_leaves_the_reader_where_he_is(tab: Tab, width: int) -> None:
    """The place stays; a button says how many are new, in sight, and leads to them."""
    long = tab.site.app.db.scope("ann").session("long")
    long.extend([{"role": "user", "text": f"number {n}: pack the tent"} for n in range(1, 401)])
    page = tab.open("conversations?user=ann&session=long&at=300")
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_selector("article[data-here]:has-text('number 300')")
    page.wait_for_selector("text=● live", state="attached")
    page.wait_for_load_state("networkidle")
    before = page.evaluate(PLACE)
    long.append("user", "number 401: said elsewhere")
    pill = page.locator("button", has_text="1 new")
    pill.wait_for()
    page.wait_for_timeout(100)

    assert abs(page.evaluate(PLACE) - before) < 40
    box = pill.bounding_box()
    assert 0 < box["y"] < 800 - box["height"]
    assert 0 <= box["x"] < width - box["width"]
    pill.click()
    page.wait_for_selector("article:has-text('said elsewhere')")
    assert pill.count() == 0


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("conversations?user=ann&session=trip&at=abc", "Line 11"),
        ("conversations?user=ann&session=trip&at=-1", "Line 11"),
        ("conversations?user=ann&session=trip&at=99999", "Line 11"),
        ("conversations?user=ann&session=nope", "There is no such conversation"),
        ("context?user=ann&session=nope", "There is no such conversation"),
        ("entries?user=ann&entry=nope", "There is no such entry"),
        ("entries?user=ann&entry=99999", "There is no such entry"),
    ],
)
def test_an_address_of_nothing_says_so(tab: Tab, place: str, said: str) -> None:
    """And never shows a number that is none."""
    page = tab.open(place)
    page.wait_for_selector(f"main >> text={said}")
    page.wait_for_load_state("networkidle")

    assert page.locator("main >> text=NaN").count() == 0
    assert page.locator(".problem").count() == 0


def test_a_view_that_cannot_be_loaded_says_what_to_do(tab: Tab) -> None:
    """The server is gone: no name of a module."""
    # Before the page: a slow browser lets requests of an open one pass for a while.
    tab.page.route("**/views/search.js", lambda route: route.abort())
    page = tab.open("conversations?user=ann")
    page.keyboard.press("/")
    page.keyboard.type("tent")
    page.wait_for_selector(".problem >> text=Start `memdb web` again")

    assert page.locator("text=dynamically imported").count() == 0


def test_a_hit_that_is_opened_has_the_focus(tab: Tab) -> None:
    """So that the next key goes on from there, not from the first row of the page."""
    page = tab.open("search?user=ann&q=stove")
    page.wait_for_selector("main a[href*='at=']")
    hit = page.locator("main a[href*='at=']").first
    seq = int(str(hit.get_attribute("href")).rsplit("at=", 1)[1])
    hit.click()
    page.wait_for_selector(f"article[data-seq='{seq}'][data-here]")
    page.wait_for_selector("main > .view:has(article:focus)")
    page.keyboard.press("k")
    page.wait_for_selector(f"article[data-seq='{seq - 1}']:focus")


def test_an_entry_that_is_pinned_keeps_the_focus(tab: Tab) -> None:
    """It is drawn anew: the focus stays in it, at its heading."""
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Oslo").click()
    page.wait_for_selector("h2:focus:has-text('◆')")
    page.wait_for_selector("text=● live")
    page.keyboard.press("p")
    page.wait_for_selector("button:text-is('Unpin')")
    page.wait_for_selector("h2:focus")


def test_keys_act_on_the_row_that_has_the_focus(tab: Tab) -> None:
    """Not on the conversation that is open beside it."""
    page = tab.open("conversations?user=ann&session=trip")
    page.wait_for_selector("article")
    page.focus("[data-session=old]")
    page.keyboard.press("#")
    page.wait_for_selector("dialog .card:has-text('The rent was due')")

    assert page.locator("dialog .card", has_text="Line 1").count() == 0


def test_ctrl_enter_does_what_a_dialog_is_for(tab: Tab) -> None:
    """In each of them: its first button."""
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Ann lives in Oslo.").click()
    page.wait_for_selector("dl")
    page.keyboard.press("s")
    page.fill("dialog textarea", "Ann lives in Bergen.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=Superseded: the old one is history.")


def test_counts_of_now_are_not_shown_for_then(tab: Tab) -> None:
    """With a time the chips have names only."""
    page = tab.open("entries?user=ann&asof=1700000000001")
    page.wait_for_selector("[aria-label=Categories] button")

    assert page.locator("[aria-label=Categories] button").first.text_content() == "All"


def test_what_is_due_is_said_in_words(tab: Tab) -> None:
    """No JSON, and on a narrow page no word is cut."""
    tab.site.app.db.scope("ann").session("trip").append("user", "Not embedded yet.")
    page = tab.open("health?user=ann")
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_selector("#jobs td:has-text('to embed')")

    assert "{" not in page.locator("#jobs").text_content()
    for cell in page.locator("#jobs th").all():
        assert cell.bounding_box()["height"] < 60
