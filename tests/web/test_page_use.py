"""The page in use: what ends a visit, commands, ranges, zones, many tabs, writers beside it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_page_views import PLACES, settle
from web_site import opened, served

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from browser import Tab
    from web_site import Site

ROOT = Path(memdb.__file__).parents[1]
TRIP = "conversations?user=ann&session=trip"
FIRST_REQUESTS = 14
INDEX_BYTES, STYLE_BYTES, MODULE_BYTES, PACKED_BYTES = 4_000, 20_000, 100_000, 35_000

WRITER = """
import sys, time
import memdb

path, count, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with memdb.open(path, embedder=None, durability="process") as db:
    session = db.scope("ann").session("trip")
    for number in range(count):
        session.append("user", f"Written outside, {number}.")
        time.sleep(pause_s)
"""


@contextmanager
def writing(site: Site, count: int, pause_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Append *count* messages in another process."""
    command = [sys.executable, "-c", WRITER, site.app.db.path, str(count), str(pause_s)]
    with subprocess.Popen(command, cwd=ROOT) as child:
        yield child
        assert child.wait(300) == 0


def test_the_first_view_is_small(reading_site: Site, open_tab: Callable[..., Tab]) -> None:
    """Files that are loaded for the first view, plain and compressed; a view more is one more."""
    tab = open_tab(reading_site)
    tab.sign_in()
    tab.requests.clear()
    page = tab.open(TRIP)
    page.wait_for_selector("article")
    settle(page)
    static = f"{tab.base}s/"
    files = [url for url in tab.requests if url.startswith(static) and not url.endswith(".svg")]
    modules = [reading_site.send("GET", url[len(reading_site.origin) :]).body for url in files]
    scripts = [body for url, body in zip(files, modules, strict=True) if url.endswith(".js")]
    (style,) = [body for url, body in zip(files, modules, strict=True) if url.endswith(".css")]
    index = reading_site.send("GET", reading_site.base).body
    assert len(files) + 1 <= FIRST_REQUESTS
    assert len(index) <= INDEX_BYTES
    assert len(style) <= STYLE_BYTES
    assert sum(map(len, scripts)) <= MODULE_BYTES
    assert sum(len(gzip.compress(body)) for body in scripts) <= PACKED_BYTES
    tab.requests.clear()
    page.click("nav.rail >> text=Map")
    page.wait_for_selector("h1:has-text('Map')")
    assert len([url for url in tab.requests if url.startswith(static) and "views" in url]) == 1


def test_a_link_that_is_too_old_says_so(open_tab: Callable[..., Tab], site: Site) -> None:
    """And what to do; a newer link takes the place of one that was not used."""
    old, new = site.app.new_link(), site.app.new_link()
    tab = open_tab(site)
    tab.page.goto(old)
    tab.page.wait_for_selector("h1:text('This link is too old')")
    tab.page.wait_for_selector("text=Press Enter in the terminal")
    tab.page.goto("about:blank")
    tab.page.goto(new)
    tab.page.wait_for_selector("text=Oslo")


def test_a_file_that_is_replaced_has_a_page_of_its_own(tab: Tab) -> None:
    """Nothing on the page goes on, whatever is pressed."""
    page = tab.open(TRIP)
    page.wait_for_selector("text=● live")
    path = Path(tab.site.app.db.path)
    path.rename(path.with_name("kept.db"))
    page.wait_for_selector("h1:text('The file was replaced')")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_timeout(200)
    assert page.inner_text("h1") == "The file was replaced"
    path.with_name("kept.db").rename(path)


def test_a_file_that_is_migrated_has_a_page_of_its_own(
    tab: Tab, set_format: Callable[..., None]
) -> None:
    """Also after a reload: the server refuses to read it by its old rules."""
    page = tab.open(TRIP)
    page.wait_for_selector("text=● live")
    set_format(tab.site.app.db, 99)
    page.wait_for_selector("h1:text('A newer memdb took this file over')")
    page.reload()
    page.wait_for_selector("h1:text('A newer memdb took this file over')")


def test_a_busy_file_is_tried_again(
    tmp_path: Path, filled: Any, open_tab: Callable[..., Tab]
) -> None:
    """An edit says that nothing was written and keeps the words; a view counts down."""
    path = filled.put(tmp_path / "trip.db")
    with opened(path, busy_timeout_s=0.1) as db, served(db) as site, opened(path) as other:
        tab = open_tab(site)
        page = tab.open("entries?user=ann")
        page.locator("a[data-entry]", has_text="Oslo").click()
        page.wait_for_selector("h2:has-text('◆')")
        page.keyboard.press("e")
        page.fill("dialog textarea", "Ann lives in Bergen.")
        with other.transaction():
            other.scope("ann").session("old").append("user", "Long work.")
            page.click("dialog >> text=Save")
            page.wait_for_selector("dialog .problem:has-text('Your text is still here')")
        assert page.input_value("dialog textarea") == "Ann lives in Bergen."
        page.click("dialog >> text=Save")
        page.wait_for_selector(".read:has-text('Ann lives in Bergen.')")


def test_a_list_that_finds_the_file_busy_counts_down(tab: Tab) -> None:
    """And then asks again by itself."""
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
            return
        body = '{"code": "busy", "detail": "The file is busy.", "todo": "Wait."}'
        route.fulfill(status=503, body=body, content_type="application/problem+json")

    tab.sign_in()
    tab.context.route(lambda url: "/api/v1/sessions?" in url, answer)
    page = tab.open("conversations?user=ann")
    page.wait_for_selector(".problem [role=timer]:has-text('Trying again in')")
    page.wait_for_selector("a[data-session=trip]")
    assert len(asked) >= 2


def test_a_full_disk_is_said(tab: Tab) -> None:
    """Nothing was written; the words stay in the editor until there is room."""
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="Oslo").click()
    page.wait_for_selector("h2:has-text('◆')")
    page.keyboard.press("e")
    text = "Ann lives in Bergen. " * 2000
    page.fill("dialog textarea", text)
    tab.site.app.db.scope("ann").remember("Ann sails.")  # from here on one connection writes
    raw = tab.site.app.db._db._writing().raw
    (pages,) = raw.execute("PRAGMA page_count").fetchone()
    raw.execute(f"PRAGMA max_page_count = {pages}")
    page.click("dialog >> text=Save")
    page.wait_for_selector("dialog .problem:has-text('The disk is full')")
    assert page.input_value("dialog textarea") == text
    tab.site.app.db._db._writing().raw.execute("PRAGMA max_page_count = 1000000")
    page.click("dialog >> text=Save")
    page.wait_for_selector(".read:has-text('Ann lives in Bergen.')")


def test_commands_stand_behind_a_sign(tab: Tab) -> None:
    """Ctrl K and ">": a list to type into; Enter runs what is chosen, Escape closes it."""
    page = tab.open(TRIP)
    page.wait_for_selector("article")
    page.keyboard.press("Control+k")
    page.keyboard.type(">theme")
    page.wait_for_selector("[role=option]:has-text('Theme')")
    assert page.get_attribute("header input", "aria-activedescendant") == "command-0"
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") in ("dark", "light")
    assert page.url.endswith("session=trip")
    page.keyboard.press(">")
    page.keyboard.type("go to")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Entries')")
    page.keyboard.press("/")
    page.keyboard.type(">no such thing")
    page.wait_for_selector("[role=option]:has-text('No such command')")
    page.keyboard.press("Escape")
    assert page.locator("[role=listbox]").count() == 0
    assert page.input_value("header input") == ""


def test_a_range_is_selected_with_shift(tab: Tab) -> None:
    """From the last one that was selected to the one with the focus; in both lists."""
    page = tab.open(f"{TRIP}&at=3")
    page.wait_for_selector("article[data-here]")
    page.keyboard.press("x")
    for _ in range(4):
        page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    page.wait_for_selector("text=5 selected")
    assert page.locator("article input:checked").count() == 5
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]").first.focus()
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    page.wait_for_selector("text=2 selected")


def test_the_zone_of_times_is_chosen_and_kept(site: Site, open_tab: Callable[..., Tab]) -> None:
    """Local at first; the clock of a message, and the day of the map, are those of the zone."""
    tab = open_tab(site, timezone_id="America/New_York")
    page = tab.open(TRIP)
    times = page.locator("article .kind .meta")
    page.wait_for_selector("article")
    assert times.first.inner_text().strip() == "17:13"  # 22:13 UTC on 14 November
    page.locator(".rail select").focus()
    page.select_option(".rail select", "Asia/Tokyo")
    page.wait_for_selector("article .kind .meta:has-text('07:13')")
    page.reload()
    page.wait_for_selector("article .kind .meta:has-text('07:13')")
    tab.open("map?user=ann")
    assert page.get_attribute("button.cell", "data-bucket") == "2023-11-15"
    page.click("button.cell")
    page.wait_for_selector("main td a:has-text('Oslo')")


def test_the_bar_of_a_narrow_screen_has_five(site: Site, open_tab: Callable[..., Tab]) -> None:
    """The other views stand behind More, with what the foot of the rail says."""
    tab = open_tab(site, viewport={"width": 360, "height": 740})
    page = tab.open("conversations?user=ann")
    shown = page.locator(".rail > *:visible")
    assert [one.strip() for one in shown.all_inner_texts()] == [
        "Conversations",
        "Search",
        "Entries",
        "Context",
        "More",
    ]
    boxes = [shown.nth(place).bounding_box() for place in range(5)]
    assert all(box["height"] >= 44 and box["x"] + box["width"] <= 360 for box in boxes)
    page.click("nav.rail >> text=More")
    page.wait_for_selector(f"dialog >> text={site.app.name}")
    page.click("dialog >> text=Health")
    page.wait_for_selector("h1:has-text('Health')")
    assert page.locator("dialog[open]").count() == 0


def test_what_another_process_writes_does_not_move_what_is_read(tab: Tab) -> None:
    """The place stays, the pill counts, and the requests are few however many messages come."""
    page = tab.open(f"{TRIP}&at=2")
    page.wait_for_selector("article[data-here]")
    page.wait_for_selector("text=● live")
    before = page.locator("article[data-seq='2']").bounding_box()
    tab.requests.clear()
    with writing(tab.site, 60, 0.01):
        pass
    page.wait_for_selector(".pill:has-text('60 new')")
    assert page.locator("article[data-seq='2']").bounding_box() == before
    assert len([url for url in tab.requests if "/messages?" in url]) <= 20
    page.click(".pill")
    page.wait_for_selector("article:has-text('Written outside, 59.')")


def test_eight_tabs_share_one_stream(site: Site, open_tab: Callable[..., Tab]) -> None:
    """A browser opens six connections: all tabs load, all are told, the next takes over."""
    tab = open_tab(site)
    tab.open(TRIP).wait_for_selector("text=● live")
    pages = [tab.page]
    for _ in range(7):
        page = tab.context.new_page()
        page.goto(tab.base + "entries?user=ann")
        page.wait_for_selector("a[data-entry]")
        page.wait_for_selector("text=● live")
        pages.append(page)
    assert site.app.events.listeners == 1
    site.app.db.scope("ann").remember("Ann plays the harp.")
    for page in pages[1:]:
        page.wait_for_selector("a[data-entry]:has-text('harp')")
    pages[0].close()
    site.app.db.scope("ann").remember("Ann sails a boat.")
    for page in pages[1:]:
        page.wait_for_selector("a[data-entry]:has-text('sails')")


@pytest.mark.parametrize(
    "width",
    [pytest.param(640, marks=pytest.mark.slow, id="200 %"), pytest.param(320, id="400 %")],
)
def test_a_zoomed_page_is_whole(
    reading_site: Site, open_tab: Callable[..., Tab], width: int
) -> None:
    """A screen of 1280 shows so many CSS pixels: nothing is wider, and headings are in sight."""
    scale = 1280 // width
    tab = open_tab(
        reading_site,
        viewport={"width": width, "height": 800 // scale},
        device_scale_factor=scale,
    )
    for view, place in PLACES.items():
        page = tab.open(place)
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert page.locator("main h1:visible, main h2:visible").count() > 0, view


def test_forced_colours_keep_what_is_chosen(
    reading_site: Site, open_tab: Callable[..., Tab]
) -> None:
    """Where colours go, outlines and glyphs say what is selected and what each thing is."""
    tab = open_tab(reading_site, forced_colors="active")
    page = tab.open(TRIP)
    page.wait_for_selector("a[data-session][aria-current=true]")
    for selector in ("a[data-session][aria-current=true]", ".rail a[aria-current]"):
        style = f"getComputedStyle(document.querySelector('{selector}')).outlineStyle"
        assert page.evaluate(style) == "solid", selector
    tab.open("search?user=ann&q=Oslo").wait_for_selector(".bar-fill")
    fill = "getComputedStyle(document.querySelector('.{}')).fill"
    assert page.evaluate(fill.format("bar-fill")) != page.evaluate(fill.format("bar-ground"))
    assert "◆" in page.inner_text("main") or "U message" in page.inner_text("main")


def test_an_empty_file_says_what_to_do(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """Each view has words of its own, and nothing fails; the first message appears by itself."""
    with memdb.open(tmp_path / "empty.db", embedder=None) as db, served(db) as site:
        tab = open_tab(site)
        for view in PLACES:
            page = tab.open(view)
            settle(page)
            assert page.locator(".problem").count() == 0, view
            text = page.inner_text("main")
            words = "Sound." if view == "health" else ""
            assert len(text) > 20, view
            assert words in text, view
        page = tab.open("conversations")
        page.wait_for_selector("text=● live")
        db.scope("ann").session("trip").append("user", "The first words.")
        page.wait_for_selector("a[data-session=trip]")


@pytest.mark.slow
def test_a_writer_of_200_a_second(tab: Tab) -> None:
    """For a minute: the page answers, the place stays, every message is counted."""
    page = tab.open(f"{TRIP}&at=2")
    page.wait_for_selector("article[data-here]")
    page.wait_for_selector("text=● live")
    page.evaluate(
        "window.long = []; new PerformanceObserver((all) => long.push("
        "...all.getEntries().map((one) => one.duration))).observe({type: 'longtask'})"
    )
    before = page.locator("article[data-seq='2']").bounding_box()
    tab.requests.clear()
    start_ms = page.evaluate("performance.now()")
    with writing(tab.site, 12_000, 0.0045):
        for _ in range(20):
            page.wait_for_timeout(2000)
            assert page.locator("article[data-seq='2']").bounding_box() == before
    page.wait_for_selector(".pill:has-text('12000 new')")
    seconds = (page.evaluate("performance.now()") - start_ms) / 1000
    asked = len([url for url in tab.requests if "/api/" in url])
    longest = page.evaluate("Math.max(0, ...long)")
    sys.stderr.write(f"{asked} requests in {seconds:.0f} s, longest task {longest:.0f} ms\n")
    assert asked <= 12 * seconds


@pytest.mark.slow
def test_twenty_thousand_sessions(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """The list begins at once and goes on by key; a change of one is told."""
    path = tmp_path / "many.db"
    with memdb.open(path, embedder=None, durability="process") as db, served(db) as site:
        ann = db.scope("ann")
        for number in range(20_000):
            ann.session(f"s{number:05}").append("user", f"We talk of boat {number}.")
        tab = open_tab(site)
        page = tab.open("conversations?user=ann")
        page.wait_for_selector("a[data-session=s19999]")
        for _ in range(10):
            page.evaluate("document.querySelector('.pane').scrollBy(0, 100000)")
            page.wait_for_timeout(300)
        assert page.locator("a[data-session]").count() > 200
        page.evaluate("document.querySelector('.pane').scrollTo(0, 0)")
        page.wait_for_selector("text=● live")
        ann.session("s00007").append("user", "Back again.")
        page.wait_for_selector("a[data-session=s00007]")
        for view in ("search?user=ann&q=boat", "map?user=ann", "health?user=ann"):
            settle(tab.open(view))
            assert page.locator(".problem").count() == 0, view
