from __future__ import annotations
from datetime import UTC, datetime
def test_x(tab):
    ann = tab.site.app.db.scope("ann")
    ann.session("past").append("user", "Said long ago.", created=datetime(2001, 9, 9, tzinfo=UTC))
    for entry in ann.entries.list():  # each is stored anew
        ann.entries.update(entry.id, text=f"{entry.text} It is known since.")
    page = tab.open("entries?user=ann")
    seen = []
    page.on("response", lambda r: seen.append((r.status, r.url[-120:])))
    page.wait_for_selector("[data-entry]")
    page.wait_for_selector("[aria-label='As of'][aria-valuetext]")
    page.press("[aria-label='As of']", "Home")
    page.wait_for_timeout(2500)
    for one in seen: print(one)
    print(page.evaluate("document.querySelector('main').innerText")[:800])
    for e in ann.entries.list(): print(e)
    print(list(ann.entries.list(as_of=1000)))
    print(page.get_attribute("[aria-label='As of']", "aria-valuetext"))
    assert 0
