"""What can be done on the page, each up to the picture of it: for its pictures and its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from browser import Tab


class Names(NamedTuple):
    """What a file holds, to act on."""

    user: str
    session: str
    entry: int
    artifact: str
    """Its address, with two versions."""
    query: str


def _entry(tab: Tab, names: Names) -> Any:
    page = tab.open(f"entries?user={names.user}&entry={names.entry}")
    page.wait_for_selector("dl")
    page.wait_for_selector("[data-entry]", state="attached")
    return page


def correct(tab: Tab, names: Names) -> None:
    """Edit an entry."""
    _entry(tab, names).click("main button:text-is('Edit')")
    tab.page.wait_for_selector("dialog textarea")


def conflict(tab: Tab, names: Names) -> None:
    """Edit an entry that somebody else changed since."""
    correct(tab, names)
    entries = tab.site.app.db.scope(names.user).entries
    text = entries.get(names.entry).text
    tab.page.fill("dialog textarea", f"{text} We checked.")
    entries.update(names.entry, text=f"{text} They checked.")
    tab.page.click("dialog >> text=Save")
    tab.page.wait_for_selector("dialog del")


def supersede(tab: Tab, names: Names) -> None:
    """Say what is true now."""
    _entry(tab, names).click("main >> text=Supersede")
    tab.page.fill("dialog textarea", "What is true from now on.")


def forget(tab: Tab, names: Names) -> None:
    """Look at what goes with a message."""
    page = tab.open(f"conversations?user={names.user}&session={names.session}&at=7")
    page.locator("article[data-here] input").check()
    page.click("main >> text=Forget")
    page.wait_for_selector("dialog .card")
    page.wait_for_selector("dialog >> text=Keep")


def receipt(tab: Tab, names: Names) -> None:
    """Forget a message, with proof."""
    forget(tab, names)
    tab.page.click("dialog button:has-text('Forget')")
    tab.page.wait_for_selector("dialog .ok")
    tab.page.click("dialog summary")


def pin(tab: Tab, names: Names) -> None:
    """Pin an entry; it can be undone."""
    _entry(tab, names).click("main button:text-is('Pin')")
    tab.page.wait_for_selector("button:text-is('Unpin')")
    tab.page.wait_for_selector(".toast >> text=Undo")


def revert(tab: Tab, names: Names) -> None:
    """Bring an earlier version back; every step stays in the history."""
    entries = tab.site.app.db.scope(names.user).entries
    entry = entries.get(names.entry)
    entries.update(names.entry, text=f"{entry.text} Or so we thought.")
    page = _entry(tab, names)
    page.click("text=Restore >> nth=0")
    page.wait_for_selector(".toast:has-text('is back')")
    page.wait_for_selector("del")
    page.evaluate("document.querySelector('ol').scrollIntoView()")


def diff(tab: Tab, names: Names) -> None:
    """Compare two versions of an artifact."""
    tab.open(f"artifacts?user={names.user}&{names.artifact}&version=2&against=1")
    tab.page.wait_for_selector(".diff .added")
    tab.page.locator(".diff").evaluate("(table) => table.scrollIntoView()")


def save(tab: Tab, names: Names) -> None:
    """Write a new version of an artifact."""
    page = tab.open(f"artifacts?user={names.user}&{names.artifact}")
    page.click("text=Save a new version")
    page.wait_for_selector("dialog textarea")


def delete(tab: Tab, names: Names) -> None:
    """Delete an artifact."""
    page = tab.open(f"artifacts?user={names.user}&{names.artifact}")
    page.click("text=Delete all versions")
    page.wait_for_selector("dialog li")


def palette(tab: Tab, names: Names) -> None:
    """Choose a command."""
    page = _entry(tab, names)
    page.keyboard.press(">")
    page.wait_for_selector("[role=option]")


def keys(tab: Tab, names: Names) -> None:
    """See the keys."""
    page = _entry(tab, names)
    page.keyboard.press("?")
    page.wait_for_selector("dialog kbd")


def actions(tab: Tab, names: Names) -> None:
    """See what can be done with a conversation."""
    page = tab.open(f"conversations?user={names.user}&session={names.session}&at=2")
    page.wait_for_selector("article[data-here]")
    page.click("main button:text-is('Actions')")
    page.wait_for_selector("dialog >> text=Compact")


def budget(tab: Tab, names: Names) -> None:
    """Compare a context at two budgets."""
    page = tab.open(f"context?user={names.user}&session={names.session}&budget=150&q={names.query}")
    page.wait_for_selector("svg.segments")
    page.click("text=Compare with this budget")
    page.fill("[aria-label=Budget]", "4000")
    page.press("[aria-label=Budget]", "Enter")
    page.wait_for_selector("tr.added")


def export(tab: Tab, names: Names) -> None:
    """Take the entries away."""
    page = tab.open(f"entries?user={names.user}")
    page.wait_for_selector("[data-entry]")
    page.click("summary:has-text('Export')")


def as_of(tab: Tab, names: Names) -> None:
    """See what was known before the first entry was stored."""
    page = tab.open(f"entries?user={names.user}")
    page.wait_for_selector("[data-entry]")
    page.press("[aria-label='As of']", "Home")
    page.wait_for_selector("text=Nothing of this was known then.")


def add(tab: Tab, names: Names) -> None:
    """Add an entry, or import a file."""
    tab.open(f"conversations?user={names.user}").click("text='+ Add'")
    tab.page.wait_for_selector("dialog textarea")


def rename(tab: Tab, names: Names) -> None:
    """Name a conversation."""
    page = tab.open(f"conversations?user={names.user}&session={names.session}")
    page.wait_for_selector("article")
    page.click("main >> text=Actions")
    page.click("dialog >> text=Rename")
    page.wait_for_selector("dialog input")


def correct_message(tab: Tab, names: Names) -> None:
    """Correct a message."""
    page = tab.open(f"conversations?user={names.user}&session={names.session}&at=1")
    page.click("[aria-label='Correct message 1']")
    page.wait_for_selector("dialog textarea")


def decide(tab: Tab, names: Names) -> None:
    """See what waits for a decision."""
    tab.site.app.db.scope(names.user).remember("The rent is due.", trust="untrusted")
    page = tab.open(f"entries?user={names.user}")
    page.click("text=/^To decide/")
    page.wait_for_selector(".question")


ACTIONS: dict[str, Callable[[Tab, Names], None]] = {
    "actions": actions,
    "correct": correct,
    "conflict": conflict,
    "supersede": supersede,
    "pin": pin,
    "revert": revert,
    "forget": forget,
    "receipt": receipt,
    "diff": diff,
    "save": save,
    "delete": delete,
    "palette": palette,
    "keys": keys,
    "budget": budget,
    "export": export,
    "as-of": as_of,
    "add": add,
    "rename": rename,
    "correct-message": correct_message,
    "decide": decide,
}
