"""What takes the focus gives it back; nothing is hidden, cut or offered in vain."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from browser import Tab
from test_page_views import PLACES, settle
from web_site import opened, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from web_site import Site

TRIP = "conversations?user=ann&session=trip"
# Fields whose placeholder is wider than they are.
CUT = """() => [...document.querySelectorAll('input[placeholder]')].filter((field) => {
  const style = getComputedStyle(field), pen = document.createElement('canvas').getContext('2d');
  pen.font = style.font;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return field.checkVisibility() && pen.measureText(field.placeholder).width > room;
}).map((field) => field.placeholder)"""
# Whether an element is what one sees at its middle.
ON_TOP = """(node) => {
  const { x, y, width, height } = node.getBoundingClientRect();
  return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""
# Where a row stands below the head of its pane, and how much of it is below the pane.
PLACE = """(row) => {
  const pane = row.closest('.pane'), head = pane.querySelector(':scope > .head');
  return [row.getBoundingClientRect().top - head.getBoundingClientRect().bottom,
    row.getBoundingClientRect().bottom - pane.getBoundingClientRect().bottom];
}"""


def test_a_command_acts_on_the_row_that_had_the_focus(tab: Tab) -> None:
    """As its key does; Escape leads back to the row."""
    page = tab.open("search?user=ann&q=cat")
    row = page.locator("[role=listitem]", has_text="Miso").first
    row.focus()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.wait_for_selector("[role=listitem]:focus:has-text('Miso')")
    page.keyboard.press(">")
    page.keyboard.type("supersede")
    page.wait_for_selector("[role=option]:has-text('Supersede')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog:has-text('Miso') textarea:focus")


def test_to_go_to_the_search_is_to_type(tab: Tab) -> None:
    """By its keys and by its command."""
    page = tab.open(TRIP)
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_selector("h1:has-text('Search')")
    page.wait_for_selector("header input:focus")
    page.keyboard.type("tent")
    page.wait_for_selector("[role=listitem]:has-text('tent')")


def test_a_dialog_begins_with_its_heading(site: Site, open_tab: Callable[..., Tab]) -> None:
    """However long it is: the first line is in sight, and read first."""
    tab = open_tab(site, viewport={"width": 360, "height": 500})
    page = tab.open(TRIP)
    page.keyboard.press("?")
    page.wait_for_selector("dialog h2:focus")

    assert page.locator("dialog").evaluate("(node) => node.scrollTop") == 0
    page.click("dialog button:text-is('Commands')")
    page.wait_for_selector("[role=option]")
    page.wait_for_selector("header input:focus")


def test_the_focus_goes_to_the_view_if_its_row_is_gone(tab: Tab) -> None:
    """After a removal by keys; what could be undone before it cannot be undone any more."""
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Oslo").click()
    page.wait_for_selector("h2:focus:has-text('◆')")
    page.keyboard.press("p")
    page.wait_for_selector(".toast >> text=Undo")
    page.keyboard.press("#")
    page.click("dialog button:has-text('Forget 1 entry')")
    page.wait_for_selector("dialog h2:has-text('Forgotten')")
    page.wait_for_selector(".toast", state="detached")
    page.wait_for_selector("main >> text=Choose an entry")
    page.click("dialog >> text=Close")
    page.wait_for_selector("h1:focus")
    page.keyboard.press("j")
    page.wait_for_selector("a[data-entry]:focus")


def test_what_a_dialog_says_is_seen(tab: Tab) -> None:
    """A sentence stands above the dialog that is open, not below it."""
    page = tab.open("artifacts?user=ann&session=trip&name=plan.md")
    page.click("text=Save a new version")
    page.fill("dialog textarea", "Day 1: sail")
    tab.site.app.db.scope("ann").session("trip").artifacts.save("plan.md", "Day 1: walk")
    page.click("dialog button:text-is('Save')")
    toast = page.locator(".toast", has_text="Somebody saved a version since")
    toast.wait_for()

    assert toast.evaluate(ON_TOP)
    assert page.input_value("dialog textarea") == "Day 1: sail"


def test_a_read_only_page_offers_no_action_by_keys_either(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab]
) -> None:
    """Neither commands, nor the list of keys, nor the keys themselves."""
    tab = open_tab(make_site(mode="read", read_only=True))
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Oslo").click()
    page.wait_for_selector("dl")
    for key in ("e", "p", "s", "x", "X", "#"):
        page.keyboard.press(key)
    page.keyboard.press("?")
    page.wait_for_selector("dialog kbd")
    listed = page.locator("dialog kbd").all_inner_texts()
    assert page.locator("dialog").count() == 1
    assert {"e", "p", "s", "x", "X", "#"}.isdisjoint(listed)
    assert {"c", "y", "t"} <= {*listed}
    page.keyboard.press("Escape")
    page.keyboard.press(">")
    page.wait_for_selector("[role=option]:has-text('Copy text')")
    commands = " ".join(page.locator("[role=option]").all_inner_texts())
    for word in ("Edit", "Pin", "Supersede", "Select", "Forget"):
        assert word not in commands


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 360])
def test_no_placeholder_is_cut(
    reading_site: Site, open_tab: Callable[..., Tab], width: int
) -> None:
    """In any view."""
    tab = open_tab(reading_site, viewport={"width": width, "height": 800})
    for view, place in PLACES.items():
        page = tab.open(place)
        settle(page)
        assert page.evaluate(CUT) == [], view


def test_no_filter_is_hidden(tab: Tab) -> None:
    """What stands in the address stands above the hits, and is taken off there."""
    page = tab.open(f"{TRIP}&at=2")
    page.wait_for_selector("article[data-here]")
    page.keyboard.press(".")
    page.click("dialog >> text=Find in it")
    page.wait_for_selector("header input:focus")
    page.keyboard.type("rent")
    page.wait_for_selector("[aria-label=Filters] >> text=in trip")
    page.wait_for_url("**q=rent*")
    assert page.locator("[role=listitem]", has_text="The rent was due").count() == 0
    page.click("[aria-label=Filters] >> text=in trip")
    page.wait_for_selector("[role=listitem]:has-text('The rent was due')")
    assert "session=" not in page.url

    tab.open("search?user=ann&q=rent&since=2020-01-01&until=2021-01-01")
    page.click("[aria-label=Filters] >> text=from 2020-01-01 until 2021-01-01")
    page.wait_for_selector("[role=listitem]:has-text('The rent was due')")


def test_the_summary_tree_follows_what_is_written(tab: Tab) -> None:
    """New summaries come by themselves; what is open in the tree stays open."""
    page = tab.open(f"{TRIP}&at=2")
    page.click("main >> text=Summaries")
    page.click(".node >> nth=0 >> text=Show its sources")
    page.wait_for_selector(".tree .tree a:has-text('#3')")
    page.wait_for_selector("text=● live")
    before = page.locator("[aria-label='Summary tree'] .node").count()
    db = tab.site.app.db
    db.scope("ann").session("trip").extend(
        {"role": "user", "text": f"Later {number}: pack the sail. " * 40} for number in range(40)
    )
    db.jobs.run()
    page.wait_for_function(
        "(count) => document.querySelectorAll('.third .node').length > count", arg=before
    )
    page.wait_for_selector(".tree .tree a:has-text('#3')")


def test_a_row_higher_than_its_pane_is_read_by_keys(tab: Tab) -> None:
    """From its first line to its last, down and up; then the next row."""
    ann = tab.site.app.db.scope("ann")
    long = "\n".join(f"Line {number} of the lease." for number in range(200))
    ann.session("talk").extend({"role": "user", "text": text} for text in ("One.", long, "Three."))
    page = tab.open("conversations?user=ann&session=talk&at=3")
    page.wait_for_selector("article[data-seq='3']:focus")
    page.keyboard.press("k")
    page.wait_for_selector("article[data-seq='2']:focus")
    row = page.locator("article[data-seq='2']")
    above, _ = row.evaluate(PLACE)
    assert abs(above) <= 1
    seen = []
    while page.locator("article[data-seq='2']:focus").count():
        seen.append(row.evaluate(PLACE))
        page.keyboard.press("j")

    assert seen[-1][1] <= 1  # its last line was in sight
    assert len(seen) > 3
    room = page.locator("section[aria-label=Messages]").evaluate("(pane) => pane.clientHeight")
    steps = [before[0] - after[0] for before, after in pairwise(seen)]
    assert all(0 < step < room for step in steps)


def test_a_server_that_ended_is_said(tmp_path: Path, filled: Any, chromium: Any) -> None:
    """In the words of the documents, and it stays said."""
    with opened(filled.put(tmp_path / "trip.db")) as db:
        with served(db) as site:
            tab = Tab(chromium, site)
            page = tab.open(TRIP)
            page.wait_for_selector("text=● live")
        page.wait_for_selector(".banner:has-text('does not answer')")
        page.wait_for_selector("text=not connected")
        with page.expect_event("requestfailed"):  # it asks again
            pass
        page.wait_for_selector("text=not connected")
        tab.context.close()


class Failing:
    """Requests of a pattern that fail for so many times; the next ones are answered."""

    def __init__(self, page: Any, pattern: str, failures: int) -> None:
        """Fail from here on."""
        self.left = failures
        page.route(pattern, self._answer)

    def _answer(self, route: Any) -> None:
        self.left -= 1
        if self.left >= 0:
            route.abort()
        else:
            route.continue_()


@pytest.mark.parametrize(
    ("module", "failures"),
    [
        ("views/entries.js", 1),
        ("views/entry_actions.js", 3),
        pytest.param("views/entries.js", 3, marks=pytest.mark.slow),
        pytest.param("views/entry_actions.js", 1, marks=pytest.mark.slow),
    ],
)
def test_a_view_that_failed_comes_when_the_server_is_back(
    tab: Tab, module: str, failures: int
) -> None:
    """By itself, also if a try was too early, and if it is a part of the view that failed."""
    failing = Failing(tab.page, f"**/{module}", failures)
    page = tab.open("health?user=ann")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_selector(".problem >> text=The server does not answer")
    page.wait_for_selector("h1:has-text('Entries')")
    page.wait_for_selector("a[data-entry]")

    assert failing.left == -1


def test_a_start_that_failed_is_tried_again(tab: Tab) -> None:
    """By itself."""
    tab.open(TRIP)
    failing = Failing(tab.page, "**/api/v1/scopes", 2)
    tab.page.goto(tab.base + TRIP)
    tab.page.wait_for_selector(".problem >> text=The server does not answer")
    tab.page.wait_for_selector("article >> text=Line 11")

    assert failing.left == -1


def test_commands_that_failed_come_when_the_server_is_back(tab: Tab) -> None:
    """It is said, and the page loads anew."""
    page = tab.open(TRIP)
    failing = Failing(page, "**/palette.js", 1)
    page.keyboard.press(">")
    page.wait_for_selector(".toast >> text=The server does not answer")
    page.wait_for_selector(".toast", state="detached", timeout=8000)  # it would stay for ten
    page.wait_for_selector("h1")
    page.keyboard.press(">")
    page.wait_for_selector("[role=option]")

    assert failing.left == -1


def test_a_view_that_was_left_while_it_loaded_does_nothing_more(tab: Tab) -> None:
    """It takes neither the place of the one that is shown nor its title, also when that one fails."""
    page = tab.open("map")
    held: list[Any] = []
    page.route("**/api/v1/session?*", lambda route: held.append(route))
    page.route("**/views/health.js", lambda route: route.abort())
    page.evaluate(
        f"() => {{ history.pushState(null, '', '{TRIP}'); dispatchEvent(new PopStateEvent('popstate')); }}"
    )
    while not held:
        page.wait_for_timeout(20)
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_selector(".problem >> text=The server does not answer")
    for route in held:
        route.continue_()
    page.wait_for_timeout(300)
    assert page.title().startswith("health")
    page.unroute("**/views/health.js")
    page.wait_for_selector("h1:has-text('Health')")


def test_what_was_known_begins_with_what_was_stored(tab: Tab) -> None:
    """The slider does not run through years before the file was there."""
    ann = tab.site.app.db.scope("ann")
    ann.session("past").append("user", "Said long ago.", created=datetime(2001, 9, 9, tzinfo=UTC))
    for entry in ann.entries.list():  # each is stored anew
        ann.entries.update(entry.id, text=f"{entry.text} It is known since.")
    page = tab.open("entries?user=ann")
    page.wait_for_selector("[data-entry]")
    page.wait_for_selector("[aria-label='As of'][aria-valuetext]")
    page.press("[aria-label='As of']", "Home")
    page.wait_for_selector("text=Nothing of this was known then.")

    assert "14 November 2023 22:13" in page.get_attribute("[aria-label='As of']", "aria-valuetext")


def test_the_lanes_of_the_map_have_names(tab: Tab) -> None:
    """Beside their bars."""
    page = tab.open("map?user=ann&from=2023-11-14&to=2023-11-15")
    page.wait_for_selector("svg.lanes text:has-text('Oslo')")

    for bar in page.locator("svg.lanes .bar-fill").all():
        assert bar.bounding_box()["width"] >= 5


def test_a_preview_of_removal_counts_in_words(tab: Tab) -> None:
    """One summary is one summary; none is not spoken of."""
    page = tab.open(f"{TRIP}&at=3")
    page.locator("article[data-here] input").check()
    page.click("main >> text=Forget")
    page.wait_for_selector("dialog [role=status]:has-text('Rewritten: 1 summary.')")
    page.click("dialog >> text=Keep")
    tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Miso").click()
    page.click("main button:has-text('Forget')")
    page.wait_for_selector("dialog [role=status]:text-is('Will be deleted: 1 entry.')")


def test_what_a_dialog_can_do_is_in_sight(site: Site, open_tab: Callable[..., Tab]) -> None:
    """However long its list is, before anything is scrolled."""
    tab = open_tab(site, viewport={"width": 360, "height": 500})
    page = tab.open(f"{TRIP}&at=3")
    page.wait_for_selector("article[data-here]")
    page.keyboard.press(".")
    page.click("dialog >> text=Forget")
    keep = page.locator("dialog button", has_text="Keep")
    keep.wait_for()

    assert page.locator("dialog").evaluate("(node) => node.scrollHeight > node.clientHeight")
    assert page.locator("dialog").evaluate("(node) => node.scrollTop") == 0
    assert keep.evaluate(ON_TOP)


def test_filters_of_a_narrow_page_stand_in_a_dialog(
    site: Site, open_tab: Callable[..., Tab]
) -> None:
    """Its button says what is chosen; what is chosen there counts at once, and keeps the focus."""
    tab = open_tab(site, viewport={"width": 360, "height": 700})
    page = tab.open("search?user=ann&q=tent")
    page.wait_for_selector("[role=listitem]")
    assert page.locator(".filters button").first.is_hidden()
    page.locator("button", has_text="All, any time").click()
    chip = page.locator("dialog .filters button", has_text="Messages")
    chip.press("Enter")
    page.wait_for_selector("dialog .filters button[aria-pressed=true]:focus:has-text('Messages')")
    page.wait_for_url(re.compile("kind=message"))
    page.locator("dialog button", has_text="Show the hits").click()
    page.wait_for_selector("dialog", state="detached")

    assert page.locator("button", has_text="Messages, any time").is_visible()
    assert page.locator(".filters button").first.is_hidden()
    page.set_viewport_size({"width": 1280, "height": 700})
    assert page.locator(".filters button[aria-pressed=true]", has_text="Messages").is_visible()


def test_no_two_regions_have_one_name(tab: Tab) -> None:
    """A list of regions tells them apart: the feed is called as its conversation is."""
    page = tab.open(TRIP)
    page.wait_for_selector("article >> text=Line 11")
    names = page.locator("[role=feed], section, nav, [role=region]").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('aria-label'))"
    )

    assert page.get_attribute("[role=feed]", "aria-label") == "Oslo"
    assert len(names) == len({*names})


def test_the_map_by_keyboard_alone(tab: Tab) -> None:
    """A day, a span of days by Shift, and on to a conversation."""
    ann = tab.site.app.db.scope("ann")
    ann.session("later").append("user", "Home.", created=datetime(2023, 11, 20, tzinfo=UTC))
    page = tab.open("conversations?user=ann")
    page.wait_for_selector("[data-session]")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_selector("[data-bucket]")
    page.keyboard.press("j")
    page.wait_for_selector("[data-bucket='2023-11-14']:focus")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('2023-11-14 to 2023-11-14')")
    page.keyboard.press("j")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector("[role=status]:has-text('2023-11-14 to 2023-11-20')")
    pressed = page.locator("[data-bucket][aria-pressed=true]").count()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('td a')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("article")

    assert pressed == 2


def test_health_by_keyboard_alone(tab: Tab) -> None:
    """Each action has a place in the order of Tab, and gives the focus back."""
    tab.site.app.db.scope("ann").session("trip").append("user", "Not embedded yet.")
    page = tab.open("conversations?user=ann")
    page.wait_for_selector("[data-session]")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_selector("#size table")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "document.activeElement.closest('main') && document.activeElement.textContent"
        )
        if name is None and seen:
            break
        if name:
            seen.append(name)
        if name == "Run what is due":
            page.keyboard.press("Enter")
            page.wait_for_selector(".toast >> text=Ran:")
            page.wait_for_selector("button:focus:has-text('Run what is due')")
    buttons = page.locator("main button:enabled").all_inner_texts()

    assert {*buttons} <= {*seen}
    assert len(buttons) > 3
