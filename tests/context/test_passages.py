"""A message that is very long is recalled into a context by the passage that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

FILLER = "We went through the agenda, and nobody had anything to add to it. "
# What answers in a long text, and what asks for it; a script without spaces too.
CASES = [
    ("The boiler code is 7714.", "What is the boiler code?", FILLER),
    ("Der Zug nach Graz faehrt um acht.", "Wann faehrt der Zug nach Graz?", FILLER),
    (
        "\u9505\u7089\u5bc6\u7801\u662f7714\u3002",
        "\u9505\u7089\u5bc6\u7801",
        "\u4eca\u5929\u5f00\u4f1a\u3002",
    ),
]


def test_the_passage_that_answers_is_in_the_prompt(open_db: Callable[..., memdb.MemDB]) -> None:
    """At its beginning, in the middle and at its end, within a budget that the text is over."""
    db = open_db(":memory:")
    wrong = []
    for number, (fact, question, filler) in enumerate(CASES):
        for place in (0, 200, 400):
            text = filler * place + fact + filler * (400 - place)
            chat = db.scope("ann").session(f"{number} {place}")
            chat.append("user", text)
            chat.extend([{"role": "user", "text": FILLER * 8} for _ in range(30)])
            window = chat.context(2_000, question)
            shown = [piece for piece in window.pieces if piece.kind == "recalled"]
            if not any(fact in (piece.text or "") for piece in shown):
                wrong.append((number, place))
            assert window.tokens <= 2_000
    assert wrong == []


def test_what_is_not_long_is_shown_word_for_word(open_db: Callable[..., memdb.MemDB]) -> None:
    """A message of a page is recalled whole where a context has room for it."""
    chat = open_db(":memory:").scope("ann").session("s")
    text = FILLER * 12 + "The boiler code is 7714. " + FILLER * 12
    chat.append("user", text.strip())
    chat.extend([{"role": "user", "text": f"{FILLER} {n}" * 9} for n in range(60)])
    shown = [one.text for one in chat.context(4_000, "What is the boiler code?").pieces]

    assert any(text.strip() in (one or "") for one in shown)


def test_what_hits_do_not_need_goes_to_the_newest_messages(db: memdb.MemDB) -> None:
    """One short hit leaves the budget to the conversation, and many hits do not."""
    chat = db.scope("ann").session("long")
    told = [
        {"role": "user", "text": f"Day {n}: we painted the fence and slept."} for n in range(400)
    ]
    chat.extend([{"role": "user", "text": "The boiler code is 7741."}, *told])

    for question in (None, "What is the boiler code?", "the fence that we painted"):
        window = chat.context(2_000, question)
        assert 1_750 <= window.tokens <= 2_000, question
    assert any("7741" in m.text for m in chat.context(2_000, "What is the boiler code?").messages)
