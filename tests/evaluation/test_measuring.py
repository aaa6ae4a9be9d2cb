"""Measuring a small set: what is found, by whom, and that it is the same each time."""

import json

import pytest

import memdb
from memdb.evaluation import dataset, measuring
from memdb.evaluation import measuring as arms
from memdb.evaluation import measuring as report


@pytest.fixture
def data(save, lines):
    """Return the small data set."""
    return dataset.read(save(lines))


def test_every_arm_answers_every_question_at_both_levels(data):
    """Four questions in two scopes, three arms; turns, sessions and how certain the answer is."""
    answers = list(measuring.run(data))

    assert len(answers) == 8 * 3 * 3
    assert {answer.arm for answer in answers} == {"fused", "lexical", "vector"}
    assert all(answer.took_ms > 0 for answer in answers)


def test_answers_stay_in_their_scope_and_name_what_was_given(data):
    """Ids are those of the data set; a session is named by its name."""
    found = {
        (answer.question, answer.level): answer.ranked
        for answer in measuring.run(data, (arms.FUSED,))
    }

    assert found["bob-0", "turn"][0] == "trip/1"
    assert found["bob-3", "session"][0] == "work"
    assert all(len(set(ranked)) == len(ranked) for ranked in found.values())


def test_two_runs_give_equal_reports_but_for_the_time(data):
    """Ids, clock and resampling are the same in each."""
    first, second = (
        _untimed(report.report(data, arms.ARMS, measuring.run(data), "static")) for _ in range(2)
    )

    assert first == second


def _untimed(told):
    """Return a report without milliseconds."""
    results = [
        {name: value for name, value in row.items() if not name.endswith("_ms")}
        for row in told["results"]
    ]
    return told | {"results": results}


def test_the_lexical_arm_is_what_a_file_without_an_embedder_gives(data):
    """Order and all."""
    with memdb.open(":memory:", embedder=None, clock=measuring.Clock()) as db:
        measuring.filled(data, db, measuring.Clock())
        scope = db.scope("ann", measuring.APP)
        plain = [hit.source.external_id for hit in scope.recall("when do we fly to Oslo?", 20)]

    (answer, *_) = measuring.run(data, (arms.LEXICAL,), embedder=None)

    assert list(answer.ranked) == plain


def test_the_vector_arm_finds_by_meaning_alone(data):
    """No word of the question stands in the message that answers it best."""
    answers = {
        answer.question: answer
        for answer in measuring.run(data, (arms.VECTOR,))
        if answer.level == "turn"
    }

    assert "food/1" in answers["ann-2"].ranked[:3]


def test_documents_are_measured_as_entries(save):
    """They have no session, so none is ranked."""
    texts = {"d1": "Green tea from Japan.", "d2": "Coffee from Brazil.", "d3": "Water."}
    made = [
        {"type": "document", "scope": "set", "id": id_, "text": text} for id_, text in texts.items()
    ]
    made.append(
        {"type": "question", "scope": "set", "id": "q", "text": "japan tea", "evidence": ["d1"]}
    )

    answers = list(measuring.run(dataset.read(save(made))))

    assert {answer.level for answer in answers} == {"turn", "answer"}
    assert {answer.ranked[0] for answer in answers} == {"d1"}


def test_relative_dates_count_from_when_the_question_is_asked(save, lines):
    """Not from the day on which the measurement runs."""
    asked = {
        "type": "question",
        "scope": "ann",
        "id": "dated",
        "text": "tea, release or hotel: what came up yesterday?",
        "evidence": ["food/1"],
        "asked_ms": 1_700_000_000_000 + 2 * 86_400_000,
    }
    found = {
        answer.question: answer.ranked
        for answer in measuring.run(dataset.read(save([*lines, asked])), (arms.FUSED,))
        if answer.level == "session"
    }

    assert found["dated"][0] == "food"


def test_a_missing_embedder_is_refused(data):
    """A fused ranking without vectors would be called fused."""
    with pytest.raises(memdb.InvalidInput, match="no embedder"):
        list(measuring.run(data, embedder=None))


def test_an_embedder_that_fails_ends_the_run(data, embedder):
    """While storing, and while asking."""
    embedder.fail = RuntimeError("no model")

    with pytest.raises(memdb.PortError, match="no model"):
        list(measuring.run(data, embedder=embedder))


def test_an_embedder_that_fails_halfway_ends_the_run(data, embedder):
    """Answers by words alone must not count as those of all arms."""
    answers = measuring.run(data, embedder=embedder)
    next(answers)
    embedder.fail = RuntimeError("gone")

    with pytest.raises(memdb.PortError, match="gone"):
        list(answers)


def test_the_report_names_its_configuration_and_compares_with_the_best_arm(data):
    """Each level and category has a line that says whether fusing pays."""
    told = report.report(data, arms.ARMS, measuring.run(data), "static")

    made = json.loads(json.dumps(told))["configuration"]
    assert made["embedder"] == "static"
    assert made["data"]["sha256"] == data.digest
    assert made["weights"]["vector"]["messages"]["lexical_share"] == 0.0
    assert made["weights"]["vector"]["messages"]["off"] == sorted(arms.VECTOR.messages.off)
    assert {(row["level"], row["category"]) for row in told["fused_against_arms"]} == {
        (level, category)
        for level in ("turn", "session")
        for category in ("all", "travel", "health", "work")
    }
    assert all(row["good"] == (row["gain"] >= -0.005) for row in told["fused_against_arms"])


def test_questions_without_a_category_count_once(data):
    """The rows over all questions are the same with categories and without, intervals too."""
    answers = list(measuring.run(data))
    plain = [answer.replace(category="all") for answer in answers]
    wanted = report.report(data, arms.ARMS, answers, "static")["results"]
    found = report.report(data, arms.ARMS, plain, "static")["results"]

    assert found == [row for row in wanted if row["category"] == "all"]


def test_answers_that_are_sure_unsure_and_none_are_counted(save, lines):
    """By category: refusals, near misses, and statements as queries, with and without evidence."""
    more = [
        ("Who is Zoltan?", "unrelated", []),
        ("any nut allergies?", None, []),
        ("Which hotel did Bob book in Oslo?", "near miss", []),
        ("I have packed for the flight to Oslo.", "statement", ["trip/1"]),
    ]
    lines += [
        {"type": "question", "scope": "ann", "id": f"n{place}", "text": text, "evidence": evidence}
        | ({"category": category} if category else {})
        for place, (text, category, evidence) in enumerate(more)
    ]
    data = dataset.read(save(lines))
    told = report.report(data, arms.ARMS, measuring.run(data, (arms.FUSED,)), "static")

    rows = {row["category"]: row for row in told["certainty"]}
    assert {name: row["questions"] for name, row in rows.items()} == {
        "all": 9,
        "travel": 4,
        "health": 2,
        "work": 2,
        "statement": 1,
        "unanswerable": 3,
        "unrelated": 1,
        "near miss": 1,
    }
    assert all(row["sure"] + row["unsure"] + row["none"] == 1 for row in rows.values())
    assert (rows["unrelated"]["none"], rows["unanswerable"]["none"]) == (1.0, 1 / 3)
    assert (rows["near miss"]["unsure"], rows["statement"]["none"]) == (1.0, 0.0)
    assert 0 < rows["all"]["right"] <= rows["all"]["sure"]
    assert rows["unrelated"]["right"] == rows["unanswerable"]["right"] == 0
    assert {row["level"] for row in told["results"]} == {"turn", "session"}
    assert any(line.startswith("fused: unrelated") for line in report.text(told))
