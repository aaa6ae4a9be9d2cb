"""The page in a browser: signing in, addresses, and what its views do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from web_site import opened, served

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from browser import Tab
    from web_site import Site

ENTRY = "Ann lives in Oslo."


def entry_link(page: Any, text: str = ENTRY) -> Any:
    """Return the row of an entry."""
    return page.locator("a[data-entry]", has_text=text)


def test_a_link_signs_in_once_and_leaves_the_address(
    open_tab: Callable[..., Tab], site: Site
) -> None:
    """The secret is gone from the address; another browser with the link is not let in."""
    link = site.app.new_link()
    first, second = open_tab(site), open_tab(site)
    first.page.goto(link)
    first.page.wait_for_selector("text=Oslo")
    assert "#" not in first.page.url
    assert "k=" not in first.page.evaluate("JSON.stringify(history.state) + location.href")
    second.page.goto(link)
    second.page.wait_for_selector("h1:text('This link was used already')")
    assert "Oslo" not in second.page.content()
    first.page.click("text=Sign out")
    first.page.wait_for_selector("h1:text('Not signed in')")
    first.page.reload()
    first.page.wait_for_selector("h1:text('Not signed in')")


def test_a_deep_link_opens_its_message_and_back_returns(tab: Tab) -> None:
    """An address is the whole state; Back leads to what was seen before."""
    page = tab.open("conversations?user=ann&session=trip&at=7")
    page.wait_for_selector("article[data-here]:has-text('Line 6')")
    page.goto(tab.base + "conversations?user=ann")
    page.click("a[data-session=old]")
    page.wait_for_selector("article:has-text('The rent was due')")
    assert page.url.endswith("session=old")
    page.go_back()
    page.wait_for_selector("text=Choose a conversation.")
    assert page.evaluate("document.activeElement.dataset.session") == "old"


def test_the_summary_tree_leads_down_to_the_words(tab: Tab) -> None:
    """A summary says what it stands for, and opens it."""
    page = tab.open("conversations?user=ann&session=trip")
    page.click("main >> text=Summaries")
    page.click(".node >> text=Show its sources")
    page.click(".tree .tree a:has-text('#3')")
    page.wait_for_selector("article[data-here]:has-text('Line 2')")
    assert "at=3" in page.url


def test_typing_searches_and_arrows_open(tab: Tab) -> None:
    """Each key asks; the arrow goes to the hits, Enter opens one."""
    page = tab.open("conversations?user=ann")
    page.keyboard.press("/")
    page.keyboard.type("fly osl", delay=20)
    page.wait_for_selector("[role=listitem]:has-text('We fly to Oslo')")
    assert "q=fly" in page.url
    hit = page.locator("[role=listitem]", has_text="We fly to Oslo").first
    assert hit.locator("svg[role=img]").get_attribute("aria-label").startswith("score ")
    hit.locator("summary").click()
    assert hit.locator("table.terms tr").count() > 0
    page.focus("header input")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("(conversations|entries)"))


def test_search_says_why_a_message_is_not_there(tab: Tab) -> None:
    """The question under the hits."""
    page = tab.open("search?user=ann&q=rent")
    page.fill("[placeholder='menu#4']", "trip#4")
    page.click("text=Why is this not here")
    page.wait_for_selector("main [role=status] p")
    assert "why=trip%234" in page.url


def test_search_says_how_certain_its_answer_is(tab: Tab) -> None:
    """Hits alone if it is sure; hits with a warning; or a sentence in place of hits."""
    ann = tab.site.app.db.scope("ann")
    seen = {}
    for query in ("Where does Ann live?", "boat lease", "Who owns the car?"):
        page = tab.open("search?" + urlencode({"user": "ann", "q": query}))
        page.wait_for_selector("main [role=status]:has-text(' ms')")
        told = page.inner_text("main")
        seen[ann.recall(query).certainty] = (
            page.locator("[role=listitem]").count() > 0,
            "not sure: these are the closest" in told,
            "Nothing is known about this." in told,
        )
    assert seen == {
        "sure": (True, False, False),
        "unsure": (True, True, False),
        "none": (False, False, True),
    }


def test_a_server_is_asked_for_a_vector_on_enter_alone(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab]
) -> None:
    """With an embedder of the network, typing searches by words, and the page says so."""
    tab = open_tab(make_site(asks_network=True))
    page = tab.open("search?user=ann&q=cat")
    page.wait_for_selector("text=Enter asks the embedder too")
    tab.open("context?user=ann&session=trip&q=cat")
    page.wait_for_selector("svg.segments")
    tab.open("search?user=ann&q=cat")
    asked = [url for url in tab.requests if "/recall?" in url or "/context?" in url]
    assert asked
    assert all("by=words" in url or "query=" not in url for url in asked)
    with page.expect_request(
        lambda request: "/recall?" in request.url and "by=" not in request.url
    ):
        page.press("header input", "Enter")


def test_looking_changes_no_use_count(tab: Tab) -> None:
    """What the page asks does not count as use."""
    page = tab.open("search?user=ann&q=cat")
    page.wait_for_selector("[role=listitem]")
    entries = list(tab.site.app.db.scope("ann").entries.list())
    assert [one.use_count for one in entries] == [0, 0]


def test_an_entry_is_edited_and_undone(tab: Tab) -> None:
    """The history has every version; Undo brings the old words back."""
    page = tab.open("entries?user=ann")
    entry_link(page).click()
    page.wait_for_selector("h2:has-text('◆')")
    page.keyboard.press("e")
    page.fill("dialog textarea", "Ann lives in Bergen.")
    page.click("dialog >> text=Save")
    page.wait_for_selector(".read:has-text('Ann lives in Bergen.')")
    page.wait_for_selector("ins:has-text('Bergen')")
    page.click(".toast >> text=Undo")
    page.wait_for_selector(f".read:has-text('{ENTRY}')")
    (entry,) = tab.site.app.db.scope("ann").entries.list(pinned=False)
    assert (entry.text, entry.version) == (ENTRY, 3)


def test_a_conflict_shows_both_texts(tab: Tab) -> None:
    """An edit of something that changed since: nothing is lost, and either can win."""
    page = tab.open("entries?user=ann")
    entry_link(page).click()
    page.click("main >> text=Edit")
    page.fill("dialog textarea", "Ann lives in Bergen now.")
    entries = tab.site.app.db.scope("ann").entries
    (entry,) = entries.list(pinned=False)
    entries.update(entry.id, text="Ann lives in Tromso.")
    page.click("dialog >> text=Save")
    page.wait_for_selector("dialog del:has-text('Tromso')")
    page.click("text=Keep mine")
    page.wait_for_selector(".read:has-text('Bergen now')")
    assert entries.get(entry.id).text == "Ann lives in Bergen now."
    assert [one.text for one in entries.history(entry.id)] == [ENTRY, "Ann lives in Tromso."]


def test_pin_supersede_and_let_it_hold_again(tab: Tab) -> None:
    """The keys of an entry, and the undo of superseding."""
    page = tab.open("entries?user=ann")
    entry_link(page).click()
    page.wait_for_selector("dl")
    page.keyboard.press("p")
    page.wait_for_selector("dd:has-text('pinned: in every context')")
    page.keyboard.press("s")
    page.fill("dialog textarea", "Ann moved to Bergen in June.")
    page.click("text=Supersede by this text")
    page.wait_for_selector(".toast:has-text('Superseded')")
    page.wait_for_selector("h2:has-text('It replaced')")
    db = tab.site.app.db
    assert ENTRY not in {one.text for one in db.scope("ann").entries.list()}
    page.click(".toast >> text=Undo")
    page.wait_for_selector(".toast:has-text('Undone')")
    assert ENTRY in {one.text for one in db.scope("ann").entries.list()}


def test_as_of_shows_what_held_then(tab: Tab) -> None:
    """The slider at its beginning: nothing was known yet; the address says the time."""
    page = tab.open("entries?user=ann")
    entry_link(page).wait_for()
    slider = page.locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    page.wait_for_selector("text=Nothing of this was known then.")
    assert "asof=" in page.url
    slider.press("End")
    entry_link(page).wait_for()


def test_an_entry_of_a_session_as_a_whole_names_no_message(tab: Tab) -> None:
    """Without a number of a message, its place is the session alone."""
    tab.site.app.db.scope("ann").remember("Ann rents a boat.", session="trip")
    page = tab.open("entries?user=ann")
    page.locator("a[data-entry]", has_text="boat").click()
    page.wait_for_selector("h2:has-text('◆')")

    page.wait_for_selector("text=Learnt from trip")
    assert "null" not in page.inner_text("body")


def test_forget_shows_every_row_and_then_the_proof(tab: Tab) -> None:
    """Choose, look, forget exactly that, and it is gone after a reload."""
    page = tab.open("conversations?user=ann&session=trip")
    page.check("[aria-label='Select message 3']")
    page.check("[aria-label='Select message 5']")
    page.click("main >> text=Forget …")
    page.wait_for_selector("dialog .card:has-text('Line 2')")
    page.click("dialog button:has-text('Forget 2 messages')")
    page.wait_for_selector("dialog h2:has-text('Forgotten')")
    page.wait_for_selector("dialog >> text=Proof")
    page.click("dialog >> text=Close")
    page.reload()
    page.wait_for_selector("article:has-text('Line 3')")
    assert page.locator("article:has-text('Line 2:')").count() == 0
    seqs = [one.seq for one in tab.site.app.db.scope("ann").session("trip").messages()]
    assert 3 not in seqs
    assert 5 not in seqs


def test_what_changed_since_the_preview_is_previewed_again(tab: Tab) -> None:
    """The digest binds the removal to what was seen."""
    page = tab.open("conversations?user=ann&session=old")
    page.wait_for_selector("article")
    page.click("main >> text=Actions")
    page.click("dialog >> text=Forget …")
    page.wait_for_selector("dialog .card:has-text('The rent was due')")
    page.wait_for_selector("dialog button:has-text('Forget 1 message')")
    tab.site.app.db.scope("ann").session("old").append("user", "And in June.")
    page.click("dialog button:has-text('Forget 1 message')")
    page.wait_for_selector("dialog >> text=Something changed since you looked.")
    page.wait_for_selector("dialog .card:has-text('And in June.')")


def test_new_messages_come_by_themselves(tab: Tab) -> None:
    """Another writer: at the end the new words come, elsewhere a button says how many."""
    page = tab.open("conversations?user=ann&session=trip")
    page.wait_for_selector("article:has-text('Line 11')")
    page.wait_for_selector("text=● live")
    trip = tab.site.app.db.scope("ann").session("trip")
    trip.append("user", "We are there.")
    page.wait_for_selector("article:has-text('We are there.')")


def test_a_read_only_page_has_no_action(
    make_site: Callable[..., Site], open_tab: Callable[..., Tab]
) -> None:
    """Actions are absent, not grey."""
    tab = open_tab(make_site(mode="read", read_only=True))
    page = tab.open("conversations?user=ann&session=trip")
    page.wait_for_selector("article")
    assert page.locator("article input[type=checkbox]").count() == 0
    page.goto(tab.base + "entries?user=ann")
    entry_link(page).click()
    page.wait_for_selector("dl")
    assert page.locator("text=Forget").count() == 0
    assert page.locator("main button", has_text="Edit").count() == 0
    page.wait_for_selector("text=read-only")


def test_an_empty_file_says_how_to_begin(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """No view fails, and the first says what to do."""
    with memdb.open(tmp_path / "empty.db") as db, served(db) as site:
        tab = open_tab(site)
        page = tab.open("conversations")
        page.wait_for_selector("text=Nothing is stored yet. Three first steps:")
        assert page.locator(".empty li code").count() == 3
        for view in VIEWS_WITH_EMPTY:
            tab.open(view)
            assert page.locator(".problem").count() == 0, view


VIEWS_WITH_EMPTY = ("search", "entries", "artifacts", "context", "health", "map")


def test_two_users_are_never_mixed(tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    """Without `user` the page asks whose memory."""
    path = tmp_path / "two.db"
    with opened(path) as db:
        for user in ("ann", "ben"):
            db.scope(user).session("s").append("user", f"I am {user}.")
        with served(db) as site:
            tab = open_tab(site)
            page = tab.open("conversations")
            page.wait_for_selector("h1:text('Whose memory?')")
            page.click("a:has-text('ben')")
            page.click("a[data-session]")
            page.wait_for_selector("article:has-text('I am ben.')")
            assert "I am ann" not in page.content()


def test_the_main_flow_by_keyboard_alone(tab: Tab) -> None:
    """Go to the entries, open one, edit it, go up; no pointer."""
    page = tab.open("conversations?user=ann")
    page.wait_for_selector("[data-session]")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_selector("h1:text('Entries')")
    entry_link(page).wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("dl")
    page.keyboard.press("e")
    page.wait_for_selector("dialog textarea")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Typed by hand.")
    page.keyboard.press("ControlOrMeta+Enter")
    page.wait_for_selector(".read:has-text('Typed by hand.')")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Choose an entry")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=Turn single keys off")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_health_has_a_card_of_sync(open_tab: Callable[..., Tab], tmp_path: Path) -> None:
    """It names the device and those that it has read, and no key; no card without a sync."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with (
        opened(tmp_path / "other.db") as other,
        opened(tmp_path / "a.db") as db,
        served(db) as site,
    ):
        page = open_tab(site).open("health")
        page.wait_for_selector("text=A backup:")
        assert page.locator("#sync").is_hidden()
        other.user("ann").remember("Ann likes tea.")
        key = other.sync(folder).key
        db.sync(folder, pairing_key=key)
        device = next(one.id for one in db.sync_status(folder).devices if not one.is_own)
        page.reload()
        page.wait_for_selector(f"section[aria-label=Sync] tr:has-text('{device}'):has-text('1')")
        assert "has told of its changes 1 time" in page.locator("#sync").inner_text()
        assert str(key) not in page.content()
