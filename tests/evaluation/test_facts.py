"""`memdb bench facts`: reading a set, telling its cases, judging and reporting."""

import json
from pathlib import Path

import pytest
from cases import each

import memdb
from memdb.evaluation import facts, facts_set
from memdb.evaluation.facts import MEASURES, Result, Shown
from memdb.models.entries import Link

SAMPLE = Path(__file__).parent / "facts_sample.jsonl"
PAIR = {"older": "a", "newer": "b", "kind": "none", "question_older": "c?"}
SEQUENCE = {
    "told": ["a", "b"], "chat": ["a", "b"], "kind": "plans",
    "question": "c?", "current": "a", "stale": "b",
}  # fmt: skip
CHAT = {
    "messages": [{"role": "user", "text": "Hi."}],
    "facts": [{"fact": "a", "seq": [1], "category": "profile"}],
    "must_not": [],
}


def _set_of(tmp_path, *lines, name="set.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return facts_set.read([str(path)])


@each(
    "line, message",
    [
        ([], "line 2 is list: give a JSON object"),
        ({"lang": "en"}, "older, told, messages or text is missing: give one of them"),
        (PAIR | {"kind": "renames"}, "kind is 'renames': use one of repeats, updates"),
        (PAIR | {"newer": " "}, "newer is empty: give a text"),
        (PAIR | {"question_older": None}, "question_older is NoneType: give a str"),
        (PAIR | {"days": -1}, "days"),
        (SEQUENCE | {"told": ["a"]}, "told has 1 texts: give two"),
        (SEQUENCE | {"chat": "ab"}, "chat is str: give a list"),
        (SEQUENCE | {"current": ""}, "current is empty: give a text"),
        (SEQUENCE | {"lasting": 1}, "lasting is 1: give True or False"),
        (CHAT | {"facts": [{"fact": "a", "seq": [2], "category": "b"}]}, "seq"),
        (CHAT | {"facts": ["a"]}, "facts contains something other than objects: give objects"),
        (CHAT | {"messages": [{"role": "user", "text": "a", "day": "May"}]}, "day is 'May'"),
        ({"text": "a"}, "why"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    """With its number, the field and the fix, before anything is told."""
    with pytest.raises(memdb.InvalidInput, match="line 2") as raised:
        _set_of(tmp_path, PAIR, line)

    assert message in str(raised.value)


def test_an_empty_set_is_refused(tmp_path):
    """There would be nothing to measure."""
    with pytest.raises(memdb.InvalidInput, match="nothing to measure"):
        _set_of(tmp_path)


def test_a_folder_is_read_and_names_of_files_give_the_language(tmp_path):
    """Unless a line names its own."""
    _set_of(tmp_path, PAIR, PAIR | {"lang": "fr"}, name="pairs-de.jsonl")
    _set_of(tmp_path, SEQUENCE, name="some.jsonl")
    found = facts_set.read([str(tmp_path)])

    assert [case.lang for case in found.cases] == ["de", "fr", "-"]
    assert found.counts == {"pairs": 2, "sequences": 1, "chats": 0, "facts": 0, "traps": 0}


def test_other_people_of_a_chat_are_authors(tmp_path):
    """Their messages are no messages of the assistant; a day holds until the next one."""
    said = [
        {"role": "user", "text": "Hi.", "day": "2026-03-02"},
        {"role": "Odile", "text": "Hello."},
    ]
    (chat,) = _set_of(tmp_path, CHAT | {"messages": said}).chats

    assert [(one.role, one.author) for one in chat.messages] == [("user", None), ("user", "Odile")]
    assert [one.created_ms for one in chat.messages] == [1772409600000, 1772409660000]


NEW, OLD, MARKED, OTHER = Shown(True, False), Shown(False, False), Shown(False, True), None


@each(
    "kind, shown, holds",
    [
        ("updates", [NEW, OLD], {"lost": 0, "current first": 1, "outdated marked": 0}),
        ("updates", [OTHER, OLD, NEW], {"lost": 0, "current first": 0, "outdated marked": 0}),
        ("updates", [NEW, MARKED], {"lost": 0, "current first": 1, "outdated marked": 1}),
        ("corrects", [NEW], {"lost": 0, "current first": 1}),
        ("corrects", [OTHER, OTHER, OTHER, NEW], {"lost": 1, "current first": 0}),
        ("updates", [MARKED], {"lost": 0, "current first": 0, "outdated marked": 1}),
        ("retracts", [MARKED], {"lost": 0, "current first": 1, "outdated marked": 1}),
        ("none", [OLD, NEW], {"lost": 0}),
        ("none", [OLD], {"lost": 1}),
        ("repeats", [OTHER, NEW], {"lost": 0, "repetition shown once": 1}),
        ("repeats", [NEW, OTHER, NEW], {"lost": 0, "repetition shown once": 0}),
        ("repeats", [], {"lost": 1, "repetition shown once": 0}),
    ],
)
def test_an_answer_is_judged(tmp_path, kind, shown, holds):
    """By what its first three hits are."""
    (case,) = _set_of(tmp_path, PAIR | {"kind": kind}).cases

    assert dict(facts.judged(case, shown)) == {name: bool(value) for name, value in holds.items()}


def test_a_temporary_state_does_not_come_first(tmp_path):
    """What it interrupts holds, and is not marked."""
    (case,) = _set_of(tmp_path, SEQUENCE | {"lasting": False}).cases

    assert dict(facts.judged(case, [OLD, NEW])) == {"lost": False, "current first": False}


@each(
    "kind, link, wrong",
    [
        ("none", "repeats", True),
        ("none", "corrects", True),
        ("repeats", "updates", True),
        ("repeats", "repeats", False),
        ("updates", "repeats", True),
        ("updates", "corrects", False),
        ("retracts", "updates", False),
    ],
)
def test_a_link_is_wrong_if_it_says_another_effect(tmp_path, kind, link, wrong):
    """Kinds of change are one: an update may be called a correction."""
    (case,) = _set_of(tmp_path, PAIR | {"kind": kind}).cases

    assert facts._is_wrong(case, link) == wrong


@pytest.fixture(scope="module")
def told():
    """Return the results of the sample by words alone, each case in a scope of its own."""
    return list(facts.run(facts_set.read([str(SAMPLE)]), {"words": None}))


def test_every_measure_of_every_case_is_reported(told):
    """Each case is told to memory and to one that keeps everything; chats are read once."""
    cases = {(one.alone, one.measure): set() for one in told}
    for one in told:
        cases[one.alone, one.measure].add(one.case)

    only_where_linked = {"sure link of two facts"}
    assert {one.measure for one in told} | only_where_linked == {*MEASURES}
    assert len(cases[False, "lost"]) == len(cases[True, "lost"]) == 24
    assert len(cases[False, "chat: lost"]) == len(cases[True, "chat: lost"]) == 12
    assert len(cases[False, "learnt of traps"]) == 12
    only_memory = ("wrong link above .8", "learnt of traps")
    assert not any((True, measure) in cases for measure in only_memory)


def test_a_memory_that_keeps_everything_marks_nothing(told):
    """It is what learning has to beat; equal texts are one hit there too."""
    marks = ("outdated marked", "chat: outdated marked")

    assert not any(one.holds for one in told if one.alone and one.measure in marks)


@each("seqs, wrong", [(([1], [2]), [True]), (([1, 2], [2]), [False]), (([1], []), [])])
def test_a_sure_link_may_not_join_two_facts(tmp_path, monkeypatch, seqs, wrong):
    """Of entries that come from one listed fact it is right; of what is not listed none knows."""
    said = [{"role": "user", "text": f"Remember that I {verb}."} for verb in ("dive", "sing")]
    listed = [{"fact": "a", "seq": seq, "category": "profile"} for seq in seqs]
    data = _set_of(tmp_path, CHAT | {"messages": said, "facts": listed})

    def linked(scope):
        older, newer = (entry.id for entry in scope.entries.list())
        return [Link(newer, older, "repeats", 0.9, "", "m", 0, "guessed")]

    monkeypatch.setattr(facts, "_links", linked)
    results = facts.run(data, {"words": None})

    assert [one.holds for one in results if one.measure == "sure link of two facts"] == wrong


def test_a_crowd_shares_scopes(tmp_path):
    """So that another person's statement may answer, and no case is left out."""
    data = facts_set.read([str(SAMPLE)])
    crowd = list(facts.run(data.replace(chats=(), traps=()), {"words": None}, crowd=16))

    assert len({one.case for one in crowd}) == 24
    assert [len(group) for group in facts._grouped(data.cases, 16)] == [8, 8, 8]
    assert [len(group) for group in facts._grouped(data.cases, 1_000)] == [24]


def test_no_statement_of_a_crowd_is_evicted():
    """A quota would count as lost what no guess lost."""
    told = 1_050
    with facts._opened(None, alone=True) as place:
        assert told > memdb.Settings().entry_quota
        scope = place.db.scope("crowd")
        for number in range(told):
            scope.remember(f"{number:x}")

        assert len(scope.entries.list()) == told


def test_the_report_counts_by_language_and_kind_and_fits_80_columns(told):
    """With three arms too."""
    data = facts_set.read([str(SAMPLE)])
    found = [
        one.replace(arm=arm) for arm in ("words", "static", "a-long-name-of-a") for one in told
    ]
    lines = facts.text(facts.report(data, found, 0))

    assert max(map(len, lines[3:])) <= 80
    rows = facts.report(data, told, 0)["results"]
    lost = [row for row in rows if row["measure"] == "lost"]
    assert [row["cases"] for row in lost if row["by"] == "lang"] == [4, 16, 4]
    assert lost[0]["cases"] == sum(row["cases"] for row in lost if row["by"] == "kind") == 24


def test_it_is_worse_only_if_more_is_lost_than_with_everything_kept(tmp_path):
    """Of what it must not lose; a share that is not measured alone is not compared."""
    data = _set_of(tmp_path, PAIR)

    def worse(memory, alone, measure="lost"):
        results = [
            Result("words", one, measure, "en", "none", "1", holds)
            for one, some in ((False, memory), (True, alone))
            for holds in some
        ]
        return [row["measure"] for row in facts.report(data, results, 0)["worse"]]

    assert worse([True, False], [False, False]) == ["lost"]
    assert worse([True, False], [False, True]) == []
    assert worse([True], [False], "current first") == []
