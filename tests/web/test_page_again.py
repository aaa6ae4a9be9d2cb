"""What comes back: who signs in elsewhere, a new link, typed text, the focus, each day of years."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from web_site import opened, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from browser import Tab
    from web_site import Site

HAS_FOCUS = "document.activeElement !== document.body"


def test_who_signs_in_in_another_tab_is_signed_in_here(site: Site, tab: Tab) -> None:
    """The page was refused, says so, and shows the view when the stream comes again."""
    page = tab.open("health?user=ann")
    page.wait_for_selector("text=● live")
    tab.context.clear_cookies()
    site.app.access.sign_out("")
    for key in "ge":
        page.keyboard.press(key)
    page.wait_for_selector("h1:has-text('Not signed in')")

    other = tab.context.new_page()
    other.goto(site.app.new_link())
    other.wait_for_selector("main h1")

    page.wait_for_selector("h1:has-text('Entries')")


def test_a_new_link_in_the_tab_of_an_old_one_signs_in(site: Site, tab: Tab) -> None:
    """Only what stands behind the "#" is another; it leaves the address."""
    page = tab.open("health?user=ann")
    tab.context.clear_cookies()
    page.goto(site.origin + site.base)
    page.wait_for_selector("h1:has-text('Not signed in')")
    page.goto(site.app.new_link())

    page.wait_for_selector("h1:not(:has-text('Not signed in'))")
    page.wait_for_function("location.hash === ''")


def test_typed_text_is_not_thrown_away_by_one_escape(tab: Tab) -> None:
    """The second one does it; what was not touched closes at once."""
    page = tab.open("entries?user=ann")
    page.click("a[data-entry]")
    page.wait_for_selector("h2")
    page.keyboard.press("e")
    page.wait_for_selector("dialog textarea")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.keyboard.press("e")
    page.fill("dialog textarea", "Ann lives in Bergen.")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog >> text=This is not saved")
    assert page.input_value("dialog textarea") == "Ann lives in Bergen."
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


@pytest.mark.parametrize("way", ["click", "keys"])
def test_the_focus_stays_after_undo(tab: Tab, way: str) -> None:
    """It is not lost with the button that is gone."""
    page = tab.open("entries?user=ann")
    page.click("a[data-entry]")
    page.wait_for_selector("h2")
    page.keyboard.press("p")
    undo = page.wait_for_selector(".toast button")
    if way == "click":
        undo.click()
    else:
        undo.focus()
        page.keyboard.press("Enter")
    page.wait_for_selector(".toast >> text=Undone.")

    page.wait_for_function(HAS_FOCUS)


def test_a_button_that_draws_itself_anew_keeps_the_focus(tab: Tab) -> None:
    """Of a part of Health."""
    page = tab.open("health?user=ann")
    page.click("button:has-text('Check deeply')")
    page.wait_for_selector(".progress:not([data-on])", state="attached")

    page.wait_for_function("document.activeElement.textContent === 'Check deeply'")


def test_escape_closes_what_is_open_and_never_opens(tab: Tab) -> None:
    """A list of formats closes; the search box gives the focus away and does not take it again."""
    page = tab.open("entries?user=ann")
    page.click("summary:has-text('Export')")
    page.wait_for_selector("details[open] button")
    page.keyboard.press("Escape")
    page.wait_for_selector("details:not([open])")

    page = tab.open("search?user=ann&q=Oslo")
    page.wait_for_selector("main [data-row]")
    page.focus("input[type=search]")
    for _ in range(3):
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.type") != "search"


def test_a_search_of_an_empty_file_asks_nothing(
    tmp_path: Path, open_tab: Callable[..., Tab]
) -> None:
    """It says how to begin; nothing is refused."""
    with opened(tmp_path / "empty.db") as db, served(db) as site:
        tab = open_tab(site)
        refused: list[int] = []
        tab.page.on("response", lambda answer: refused.append(answer.status))
        page = tab.open("search")
        page.wait_for_selector("text=Nothing is stored yet")

    assert max(refused) < 400


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 360])
def test_a_long_name_in_a_choice_stays_in_sight(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab], width: int
) -> None:
    """The choice of a conversation is no wider than the window."""
    site = make_site()
    site.app.db.scope("ann").session("L" * 190).append("user", "Hello.")
    tab = open_tab(site, viewport={"width": width, "height": 800})
    page = tab.open("context?user=ann")
    page.wait_for_selector("main select[aria-label=Conversation] option", state="attached")

    right = page.evaluate(
        "document.querySelector('main select[aria-label=Conversation]')"
        ".getBoundingClientRect().right"
    )
    assert right <= width


def test_a_map_of_years_shows_each_day(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab]
) -> None:
    """Also where there are more days than are counted at once; a day holds what was said on it."""
    days = ["2019-02-27", "2019-02-28", "2021-07-01", "2024-12-31", "2026-03-09"]
    site = make_site()
    old = site.app.db.scope("old")
    for day in days:
        created = f"{day}T12:00:00Z"
        old.session(day).append("user", "We said something.", created=created)
    tab = open_tab(site)
    page = tab.open("map?user=old")
    page.wait_for_selector("[data-bucket]")

    newest_month_first = sorted(days, key=lambda day: (-int(day[:7].replace("-", "")), day))
    assert shown_buckets(page) == newest_month_first
    page.click("[data-bucket='2021-07-01']")
    page.wait_for_selector("text=2021-07-01 to 2021-07-01: ")
    page.select_option("[aria-label=Buckets]", "month")
    page.wait_for_selector("[data-bucket='2024-12']")
    assert shown_buckets(page) == ["2026-03", "2024-12", "2021-07", "2019-02"]


def shown_buckets(page: Any) -> list[str]:
    """Return what the cells stand for."""
    return page.evaluate(
        "[...document.querySelectorAll('[data-bucket]')].map(e => e.dataset.bucket)"
    )
