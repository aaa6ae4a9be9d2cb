"""Spelling: identifiers and words that a text writes in another way than the question."""

from __future__ import annotations

import datetime as dt

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.search.spelling import Speller
from memdb.text.terms import query_words

TEXTS = {
    "The build fails in OrderQueueWorker.java": ("order queue worker", "order_queue_worker"),
    "Ticket ZET-1187 is about slow exports": ("zet1187", "ZET 1187", "zet/1187"),
    "Parcel RX2290SE is late": ("RX 2290", "rx 2290 se", "rx2290"),
    "Claim KV000731 is open": ("KV731", "kv 731", "KV-00731", "what is claim kv0731 about?"),
    "Claim NB-912 is closed": ("NB0912", "nb-000912"),
    "Claim HD-00854 is lost": ("HD854", "hd-854", "HD 0854"),
    "Locker 0417 is mine": ("417", "00417"),
    "We only allow TLS1.3 at the proxy": ("TLS 1.3",),
    "The kitchen quote is $1,750 in total": ("1750 dollars", "1750"),
    "Rent went up to 1240 euros": ("1,240", "€1.240"),
    "MAX_RETRY_COUNT is set to seven": ("maxRetryCount", "max retry count"),
    "IBAN of Opa: DE44 5001 0517 5407 3249 31": ("DE44500105175407324931",),
    "The commit 77ab03e9 fixed the crash": ("77ab03e",),
    "Our choir needs a bookkeeper": ("book keeper",),
    "The light house tour starts at noon": ("lighthouse",),
    "Call Przybylski about the scaffolding": ("przybilski", "the scafolding"),
    "Meine Brille liegt im Auto": ("Brillen",),
}
OTHERS = (
    "ZET-1188", "RX2291", "RX 2291", "TLS 1.1", "1,751", "1241 euros", "77ab03e8", "77ac03e",
    "KV732", "KV7310", "NB-9120", "418", "4170", "DE44500105175407324932", "what is ticket ZET-1188 about?",
)  # fmt: skip


@pytest.mark.parametrize("embedder", ["static", None])
@pytest.mark.parametrize("kind", ["message", "entry"])
def test_other_spellings_are_found_and_other_numbers_are_not_sure(
    kind: str, embedder: str | None
) -> None:
    """Each spelling finds its text among three; a number of no text is sure in none."""
    with memdb.open(":memory:", embedder=embedder, settings=ALLOWED) as db:
        scope = db.scope("ann")
        if kind == "entry":
            for text in TEXTS:
                scope.remember(text)
        else:
            scope.session("s").extend([{"role": "user", "text": text} for text in TEXTS])
        db.jobs.run()

        asked = [(text, query) for text, queries in TEXTS.items() for query in queries]
        missed = [
            query
            for text, query in asked
            if text not in [hit.text for hit in scope.recall(query, 3, min_score=0)]
        ]
        sure = [query for query in OTHERS if scope.recall(query).certainty == "sure"]

    assert (missed, sure) == ([], [])


ALLOWED = {"secrets_in_entries": "allow", "secrets_in_messages": "allow"}
NOW = dt.datetime(2026, 9, 15, 12, tzinfo=dt.UTC)
SAID = {
    "2026-03-19": "The vet says Bruno must lose two kilos",
    "2026-07-08": "Bike tour along the Weser",
    "2026-08-12": "Wasps under the roof",
    "2026-09-14": "Discussed the route for the Harz hike",
    "2026-09-15": "The lamp needs a new cable",
}
TIMES = {
    "what did I write on 8 July?": ["2026-07-08"],
    "everything since Monday": ["2026-09-15", "2026-09-14"],
    "ayer": ["2026-09-14"],
    "hier": ["2026-09-14"],
    "gestern": ["2026-09-14"],
    "昨天": ["2026-09-14"],
    "qu'ai-je dit en août ?": ["2026-08-12"],
    "in March": ["2026-03-19"],
}
NOT_SURE = ("what did I say about Bruno yesterday?", "what was said two weeks ago?", "im Dezember")


def test_a_time_alone_lists_and_a_time_of_something_else_is_not_sure() -> None:
    """A word of any language may be the time, and a row of the time must name who is asked for."""
    with memdb.open(":memory:", clock=lambda: round(NOW.timestamp() * 1000)) as db:
        session = db.scope("ann").session("s")
        for day, text in SAID.items():
            session.append("user", text, created=f"{day}T10:00:00Z")
        db.jobs.run()

        found = {query: [hit.text for hit in db.scope("ann").recall(query)] for query in TIMES}
        sure = [query for query in NOT_SURE if db.scope("ann").recall(query).certainty == "sure"]

    assert found == {query: [SAID[day] for day in days] for query, days in TIMES.items()}
    assert sure == []


PEOPLE = ["ann", "lee", "melanie", "caroline", "john", "jon", "marta", "marla", "мария", "rover2"]


def spelt(text: str, names: list[str]) -> str:
    """Return *text* as it is spelt where no text holds a word of it."""
    return Speller(lambda _: {}, lambda _: [], names).spelt(text, {*query_words(text)} - {*names})


@each(
    "text,said",
    [
        pytest.param("What did Melonie buy?", "What did melanie buy?", id="another letter"),
        pytest.param("What did Carolne buy?", "What did caroline buy?", id="a missing letter"),
        pytest.param("What did Carolinne buy?", "What did caroline buy?", id="one too many"),
        pytest.param("What did Meelanei buy?", "What did melanie buy?", id="two, in a long name"),
        pytest.param("What did Mrata buy?", "What did marta buy?", id="two swapped"),
        pytest.param("Is this Melonie's dog?", "Is this melanie's dog?", id="possessive"),
        pytest.param("what did melonie buy", "what did melanie buy", id="no capital"),
        pytest.param("Куда едет Марию", "Куда едет мария", id="another script"),
        pytest.param("What did Melanie buy?", None, id="as it is"),
        pytest.param("What did Joan buy?", None, id="a name that English has"),
        pytest.param("What is Carolina like?", None, id="a place"),
        pytest.param("What did Joon buy?", None, id="as near to another"),
        pytest.param("What did Marca buy?", None, id="between two"),
        pytest.param("What did Karoline buy?", None, id="another first letter"),
        pytest.param("What did Johhne buy?", None, id="two in a short name"),
        pytest.param("What did An buy?", None, id="too short"),
        pytest.param("What did Rover3 buy?", None, id="a number"),
    ],
)
def test_misspelt_names(text: str, said: str | None) -> None:
    """A letter or two may be wrong; English words and what is near to two names stay."""
    assert spelt(text, PEOPLE) == (said or text)


LETTERS = "abcdefghijklmnopqrstuvwxyz"


@given(st.text(LETTERS, min_size=8, max_size=12), st.data())
def test_every_single_edit_of_a_long_name_is_found(rest: str, data: st.DataObject) -> None:
    """Whichever letter but the first is changed, left out, added or swapped."""
    name = f"q{rest}"
    place = data.draw(st.integers(2, len(name) - 2))
    letter = data.draw(st.sampled_from(LETTERS))
    swapped = name[:place] + name[place + 1] + name[place] + name[place + 2 :]
    for wrong in (
        name[:place] + letter + name[place + 1 :],
        name[:place] + name[place + 1 :],
        name[:place] + letter + name[place:],
        swapped,
    ):
        assert spelt(f"Where is {wrong}?", [name, "zoe"]) == f"Where is {name}?"
