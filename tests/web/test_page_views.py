"""Every view of the page: hostile texts, accessible names, themes, widths, long conversations."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hostile_file import fill_hostile
from page_actions import ACTIONS, Names
from web_site import Clock, opened, served

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from browser import Tab
    from web_site import Site

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
# A place in each view, on the file of the examples.
PLACES = {
    "conversations": "conversations?user=ann&session=trip",
    "search": "search?user=ann&q=Oslo",
    "entries": "entries?user=ann&entry=1",
    "artifacts": "artifacts?user=ann&name=user:map.svg",
    "context": "context?user=ann&session=trip&budget=600&q=Oslo",
    "health": "health?user=ann",
    "map": "map?user=ann&by=day",
}
SHEET = "body {margin: 8px; font-size: 0; background: #888} img {margin: 8px; width: 360px}"
# Names in the heads of messages that reach into what stands beside them.
COVERED = """[...document.querySelectorAll('.message > .spread')].filter((head) =>
  head.firstElementChild.scrollWidth > head.firstElementChild.clientWidth
  || head.firstElementChild.getBoundingClientRect().right > head.lastElementChild.getBoundingClientRect().left
).map((head) => head.innerText)"""
AXE = "axe-core@4"
PICTURED = (
    "correct", "supersede", "pin", "forget", "receipt", "diff", "palette", "budget", "export",
    "as-of",
)  # fmt: skip
ARTIFACT = "user:0<b>'\".svg"


def settle(page: Any) -> None:
    """Wait until nothing is asked any more."""
    page.wait_for_selector(".progress:not([data-on])", state="attached")
    page.wait_for_timeout(150)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script of axe-core, from npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is absent")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "memdb-tests"
    script = cache / "axe.min.js"
    if not script.exists():
        folder = tmp_path_factory.mktemp("axe")
        command = ["npm", "pack", "--silent", AXE]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
        packed = next(folder.glob("*.tgz"), None)
        if done.returncode or packed is None:
            pytest.skip("npm did not bring axe-core")
        with tarfile.open(packed) as archive:
            text = archive.extractfile("package/axe.min.js")
            assert text is not None
            cache.mkdir(parents=True, exist_ok=True)
            script.write_bytes(text.read())
    return script.read_text()


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory, filled: Any) -> Iterator[Site]:
    """Return one served copy for the tests that only look."""
    path = filled.put(tmp_path_factory.mktemp("views") / "trip.db", lasting=True)
    with opened(path) as db, served(db) as site:
        yield site


LOOKS = [
    ("light", 1280),
    pytest.param("dark", 360, marks=pytest.mark.slow),
    pytest.param("dark", 1280, marks=pytest.mark.slow),
    pytest.param("light", 360, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_in_a_view(
    shared_site: Site, open_tab: Callable[..., Tab], axe: str, theme: str, width: int
) -> None:
    """Names, roles and contrast, in both themes; nothing is wider than the screen."""
    size = {"width": width, "height": 800}
    tab = open_tab(shared_site, color_scheme=theme, viewport=size, bypass_csp=True)
    found = {}
    for view, place in PLACES.items():
        page = tab.open(place)
        settle(page)
        found[view] = findings_of(page, axe)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (view, wide)
    assert {view: all_ for view, all_ in found.items() if all_} == {}


def findings_of(page: Any, axe: str) -> list[Any]:
    """Return what axe-core finds, with where it is."""
    page.evaluate(axe)
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], node["target"], node["failureSummary"][:200])
        for one in result["violations"]
        for node in one["nodes"][:3]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "width"), [("dark", 360), ("light", 1280)])
@pytest.mark.parametrize("name", ACTIONS)
def test_axe_finds_nothing_in_an_action(
    make_site: Callable[..., Site],
    open_tab: Callable[..., Tab],
    axe: str,
    name: str,
    theme: str,
    width: int,
) -> None:
    """Dialogs, menus, commands and messages, begun on a wide screen."""
    site = make_site()
    names = names_of(site)
    tab = open_tab(site, color_scheme=theme, bypass_csp=True)
    ACTIONS[name](tab, names)
    tab.page.set_viewport_size({"width": width, "height": 800})
    settle(tab.page)

    assert findings_of(tab.page, axe) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def names_of(site: Site) -> Names:
    """Give the file of the examples two versions of an artifact, and return its names."""
    ann = site.app.db.scope("ann")
    ann.session("trip").artifacts.save("plan.md", "Day 1: sail\nDay 2: walk")
    entry = next(one.id for one in ann.entries.list() if "Oslo" in one.text)
    ann.remember("Ann has a boat.", category="entities")
    return Names("ann", "trip", entry, "session=trip&name=plan.md", "Oslo")


def test_stored_text_is_only_text(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """No script, no dialog, no request elsewhere, no violation of the policy, in any view."""
    with memdb.open(tmp_path / "hostile.db") as db, served(db) as site:
        name = quote(fill_hostile(db), safe="")
        tab = open_tab(site)
        violations: list[str] = []
        tab.context.expose_function("note_violation", lambda text: violations.append(text))
        tab.context.add_init_script(
            "addEventListener('securitypolicyviolation',"
            "(event) => note_violation(event.violatedDirective + ' ' + event.blockedURI))"
        )
        first = db.scope("mallory").entries.list()[0].id
        for place in (
            f"conversations?user=mallory&session={name}",
            f"conversations?user=mallory&session={name}&at=1",
            f"conversations?user=mallory&session={name}&at=50",
            "search?user=mallory&q=alert",
            "search?user=mallory&q=%3Cscript%3Ealert(1)%3C/script%3E",
            "entries?user=mallory",
            f"entries?user=mallory&entry={first}",
            f"artifacts?user=mallory&name={quote(ARTIFACT)}",
            "artifacts?user=mallory&name=user%3A0%3Ci%3E.html&version=2&against=1",
            f"context?user=mallory&session={name}&budget=9000&q=alert",
            "health?user=mallory",
            "map?user=mallory&from=2020-01-01&to=2099-01-01",
        ):
            page = tab.open(place)
            settle(page)
            assert page.locator(".problem").count() == 0, (place, page.inner_text(".problem"))
            assert page.evaluate("window.hacked") is None, place
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280, place
            assert page.evaluate(COVERED) == [], place
            assert (
                page.locator("main script, main iframe, main style, main form[action]").count() == 0
            )
            assert "\u202e" not in page.title()
        assert violations == []


def test_an_image_is_shown_and_a_difference_drawn(tab: Tab) -> None:
    """Versions of an artifact: the newest, an older one, what differs."""
    ann = tab.site.app.db.scope("ann")
    ann.session("trip").artifacts.save("plan.md", "Day 1: sail\nDay 2: walk")
    page = tab.open("artifacts?user=ann&session=trip&name=plan.md")
    page.wait_for_selector("pre:has-text('Day 2: walk')")
    page.select_option("main select", "1")
    page.wait_for_selector("tr.removed:has-text('Day 1: fly')")
    page.wait_for_selector("tr.added:has-text('Day 2: walk')")
    tab.open("artifacts?user=ann&name=user:map.svg")
    page.wait_for_selector("img.thumb")


def test_a_context_adds_up_at_each_budget(tab: Tab) -> None:
    """The bar, the sum, and what came in and fell out between two budgets."""
    page = tab.open("context?user=ann&session=trip&budget=100&q=Oslo")
    page.wait_for_selector("svg.segments")
    page.click("text=Compare with this budget")
    page.fill("[aria-label=Budget]", "4000")
    page.press("[aria-label=Budget]", "Enter")
    page.wait_for_selector("tr.added")
    assert "budget=4000" in page.url
    page.click("summary:has-text('Exactly what is sent')")
    page.wait_for_selector("pre:has-text('\"messages\"')")


def test_health_runs_what_is_due(tab: Tab) -> None:
    """Jobs that are due are said, and run by a button."""
    tab.site.app.db.scope("ann").session("new").append("user", "Something new.")
    page = tab.open("health?user=ann")
    page.wait_for_selector("[role=status]:has-text('due.')")
    page.click("text=Run what is due")
    page.wait_for_selector("[role=status]:has-text('No job is due.')")


def test_a_day_of_the_map_leads_to_its_conversations(tab: Tab) -> None:
    """The calendar, the lanes, and the way on."""
    page = tab.open("map?user=ann")
    page.click("button.cell")
    page.wait_for_selector("svg.lanes")
    page.click("main td a:has-text('Oslo')")
    page.wait_for_selector("article")


def fill_long(db: memdb.MemDB, count: int) -> None:
    """Say *count* messages in one session."""
    session = db.scope("ann").session("long")
    texts = ("The lease of the boat {}.", "Message {} is here. " * 6, "Short {}.")
    for start in range(1, count + 1, 5000):
        session.extend(
            {"role": "user" if n % 2 else "assistant", "text": texts[n % 3].replace("{}", str(n))}
            for n in range(start, min(start + 5000, count + 1))
        )


def check_long(open_tab: Callable[..., Tab], path: Path, count: int) -> dict[str, float]:
    """Open a long conversation, jump in it and go back; return what it took, in ms."""
    took = {}
    with memdb.open(path, embedder=None) as db:
        fill_long(db, count)
        with served(db) as site:
            tab = open_tab(site)
            tab.sign_in()
            start = perf_counter()
            page = tab.open("conversations?user=ann&session=long")
            page.wait_for_selector(f"article[data-seq='{count}']")
            took["first view"] = (perf_counter() - start) * 1000
            middle = count * 57 // 100
            start = perf_counter()
            page.fill("[aria-label='Go to message number']", str(middle))
            page.press("[aria-label='Go to message number']", "Enter")
            page.wait_for_selector(f"article[data-here][data-seq='{middle}']")
            took["jump"] = (perf_counter() - start) * 1000
            box = page.locator(f"article[data-seq='{middle}']").bounding_box()
            assert 0 < box["y"] < 800
            assert page.locator("article").count() <= 400
            assert page.locator("article").first.get_attribute("aria-setsize") == str(count)
            tab.open(f"conversations?user=ann&session=long&at={middle}")
            page.wait_for_selector(f"article[data-here][data-seq='{middle}']")
            start = perf_counter()
            tab.open("search?user=ann&q=lease+of+the+boat")
            page.wait_for_selector("[role=listitem]")
            took["search"] = (perf_counter() - start) * 1000
    return took


def test_a_long_conversation_is_a_virtual_list(
    open_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    """Only what is in sight is in the page; any number is one step away."""
    check_long(open_tab, tmp_path / "long.db", 3000)


@pytest.mark.slow
def test_a_conversation_of_100_000_messages(open_tab: Callable[..., Tab], tmp_path: Path) -> None:
    """The same, thirty times as long."""
    print(check_long(open_tab, tmp_path / "long.db", 100_000))  # noqa: T201 (run by hand)


@pytest.mark.skipif("not os.environ.get('MEMDB_PICTURES')", reason="MEMDB_PICTURES=1 takes them")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_for_the_docs(open_tab: Callable[..., Tab], tmp_path: Path, theme: str) -> None:
    """Take the seven views of the example, wide and narrow, into docs/pictures."""
    path = tmp_path / "demo.db"
    make_workshop(path)
    PICTURES.mkdir(exist_ok=True)
    with memdb.open(path) as db, served(db) as site:
        rent = next(one.id for one in db.scope("mara").entries.list() if "15 400" in one.text)
        places = {
            "conversations": "conversations?user=mara&session=budget-review&at=7",
            "search": "search?user=mara&q=rent+in+the+lease",
            "entries": f"entries?user=mara&entry={rent}",
            "artifacts": "artifacts?user=mara&name=user:opening-plan.md&version=5&against=4",
            "context": "context?user=mara&session=budget-review&budget=1500&q=rent",
            "health": "health",
            "map": "map?user=mara&from=2025-03-10&to=2025-04-27",
        }
        tab = open_tab(site, color_scheme=theme, viewport={"width": 1100, "height": 700})
        for view, place in places.items():
            page = tab.open(place)
            settle(page)
            page.screenshot(path=PICTURES / f"web-{view}-{theme}.png")
            assert page.locator(".problem").count() == 0
        narrow = {"width": 360, "height": 700}
        small = open_tab(site, color_scheme=theme, viewport=narrow)
        shots = []
        for place in places.values():
            page = small.open(place)
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= narrow["width"], place
            shots.append(b64encode(page.screenshot()).decode())
        # One sheet of the seven, laid out in a page of its own.
        sheet = small.context.browser.new_page(viewport={"width": 4 * 376 + 16, "height": 1448})
        images = "".join(f'<img src="data:image/png;base64,{one}">' for one in shots)
        sheet.set_content(f"<style>{SHEET}</style>{images}")
        sheet.screenshot(path=PICTURES / f"web-narrow-{theme}.png")
        sheet.close()


def make_workshop(path: Path) -> None:
    """Import the example's conversations and artifacts, learn from them, and tell the rent twice."""
    with memdb.open(path) as db:
        db.import_file(ROOT / "examples" / "workshop.jsonl", user="mara")
        mara = db.scope("mara")
        for session in mara.sessions():
            mara.session(session.name).extract()
        mara.remember("The rent is 14 500 SEK a month.", session="kickoff")
        mara.remember("The rent is 15 400 SEK a month.", session="rent-surprise")
        db.jobs.run()


def demo_names(db: memdb.MemDB) -> Names:
    """Return what the actions are shown with, in the example."""
    entries = db.scope("mara").entries.list()
    rent = next(one.id for one in entries if "14 500 SEK a month" in one.text)
    return Names("mara", "budget-review", rent, "name=user:opening-plan.md", "rent")


def look_back(tab: Tab, names: Names) -> None:
    """Show what was known a year ago, in a file that was written for three years."""
    page = tab.open(f"entries?user={names.user}")
    page.wait_for_selector("[aria-label='As of'][aria-valuetext]")
    for key in ("Home", "PageUp", "PageUp", "PageUp", "PageUp"):
        page.press("[aria-label='As of']", key)
    page.wait_for_selector("a[data-entry] >> text=Bergen")


def know_for_years(path: Path) -> None:
    """Learn one thing a year since 2023, and that another is not so any more."""
    clock = Clock(0)
    with memdb.open(path, embedder=None, clock=clock) as db:
        ann = db.scope("ann")
        for text in (
            "Ann lives in Bergen.",
            "Ann has a cat called Miso.",
            "Ann lives in Oslo now.",
        ):
            ann.remember(text, category="profile", key="home" if "lives" in text else "cat")
            clock.now_ms += 365 * 86_400_000


@pytest.mark.skipif("not os.environ.get('MEMDB_PICTURES')", reason="MEMDB_PICTURES=1 takes them")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_of_actions(open_tab: Callable[..., Tab], tmp_path: Path, theme: str) -> None:
    """Take what the documents tell of, each on a copy of the example, in 40 colours."""
    images = pytest.importorskip("PIL.Image")
    path = tmp_path / "demo.db"
    make_workshop(path)
    size = {"width": 960, "height": 660}
    for name in PICTURED:
        act = look_back if name == "as-of" else ACTIONS[name]
        copy = tmp_path / f"{name}.db"
        if name == "as-of":
            know_for_years(copy)
        else:
            shutil.copy(path, copy)
        with memdb.open(copy) as db, served(db) as site:
            names = Names("ann", "", 0, "", "") if name == "as-of" else demo_names(db)
            tab = open_tab(site, color_scheme=theme, viewport=size)
            act(tab, names)
            settle(tab.page)
            assert tab.page.locator(".problem").count() == 0
            found = images.open(BytesIO(tab.page.screenshot())).convert("RGB").quantize(40)
            found.save(PICTURES / f"web-do-{name}-{theme}.png", optimize=True)


def stay_empty(db: memdb.MemDB) -> str:
    """Store nothing; return the place to look at."""
    assert db.scopes() == []
    return "conversations"


def say_100_000(db: memdb.MemDB) -> str:
    """Fill a long conversation; return the place of its middle."""
    fill_long(db, 100_000)
    return "conversations?user=ann&session=long&at=57000"


def say_hostile(db: memdb.MemDB) -> str:
    """Store what would run if it were more than text; return its place."""
    return f"conversations?user=mallory&session={quote(fill_hostile(db), safe='')}&at=1"


@pytest.mark.skipif("not os.environ.get('MEMDB_PICTURES')", reason="MEMDB_PICTURES=1 takes them")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "fill"),
    [("empty", stay_empty), ("long", say_100_000), ("hostile", say_hostile)],
)
def test_pictures_of_unusual_files(
    open_tab: Callable[..., Tab],
    tmp_path: Path,
    name: str,
    fill: Callable[[memdb.MemDB], str],
    theme: str,
) -> None:
    """Take an empty file, 100,000 messages and texts that would run, into docs/pictures."""
    with memdb.open(tmp_path / f"{name}.db", embedder=None) as db:
        place = fill(db)
        with served(db) as site:
            tab = open_tab(site, color_scheme=theme, viewport={"width": 1100, "height": 700})
            page = tab.open(place)
            settle(page)
            page.screenshot(path=PICTURES / f"web-{name}-{theme}.png")
            assert page.locator(".problem").count() == 0
