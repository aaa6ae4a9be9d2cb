"""What a data set must be, and what is refused before a file is made."""

import pytest

import memdb
from memdb.evaluation import dataset


def test_a_set_is_read_with_counts_and_times(save, lines):
    """Messages take their times from their session, a minute apart."""
    found = dataset.read(save(lines))

    trip = found.sessions["ann"]["trip"]
    assert found.counts == {
        "scopes": 2,
        "sessions": 6,
        "messages": 18,
        "documents": 0,
        "questions": 8,
        "without evidence": 0,
    }
    assert [one.created_ms for one in trip] == [
        1_700_000_000_000,
        1_700_000_060_000,
        1_700_000_120_000,
    ]
    assert found.questions[1].sessions == {"trip"}


def test_questions_without_evidence_stand_apart(save, lines):
    """Nothing is found for them, or what is found may not answer."""
    found = dataset.read(
        save([*lines, {"type": "question", "scope": "ann", "id": "q", "text": "Why?"}])
    )

    asked = [(one.id, one.category) for one in found.unanswerable]
    assert (len(found.questions), asked) == (8, [("q", "unanswerable")])
    assert found.counts["without evidence"] == 1


MESSAGE = {"type": "message", "scope": "ann", "session": "s", "id": "1", "text": "x"}
QUESTION = {"type": "question", "scope": "ann", "id": "q", "text": "x", "evidence": ["trip/1"]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"type": "turn"}, "line 25: type is 'turn'"),
        ([], "line 25 is list: give a JSON object"),
        (MESSAGE | {"text": None}, "line 25: text is NoneType"),
        (MESSAGE | {"session": ""}, "line 25: session is empty"),
        (MESSAGE | {"role": "robot"}, "line 25: role is 'robot'"),
        (MESSAGE | {"id": "trip/1"}, "line 25: id 'trip/1' occurs twice"),
        (MESSAGE | {"created_ms": "noon"}, "line 25: created_ms is 'noon'"),
        ({"type": "session", "scope": "a", "session": "s"}, "line 25: created_ms is missing"),
        ({"type": "document", "scope": "a", "id": "1", "text": " "}, "line 25: text is empty"),
        (QUESTION | {"evidence": ["nowhere"]}, "line 25: evidence 'nowhere' is not an id"),
        (QUESTION | {"evidence": "trip/1"}, "line 25: evidence is str"),
        (QUESTION | {"sessions": ["nowhere"]}, "line 25: sessions contains 'nowhere'"),
        (QUESTION | {"scope": "eve"}, "line 25: scope 'eve' has no message"),
        (QUESTION | {"id": "ann-0"}, "line 25: question id 'ann-0' occurs twice"),
    ],
    ids=lambda value: value[9:40] if isinstance(value, str) else "",
)
def test_a_wrong_line_is_named_with_the_fix(save, lines, line, said):
    """Nothing is guessed."""
    with pytest.raises(memdb.InvalidInput) as raised:
        dataset.read(save([*lines[:24], line]))

    assert said in str(raised.value)


def test_a_line_that_is_no_json_is_named(save, lines):
    """Also where it is cut in the middle."""
    path = save(lines)
    path.write_text(path.read_text()[:-20])

    with pytest.raises(memdb.InvalidInput, match="line 32 is not JSON"):
        dataset.read(path)


def test_a_set_without_questions_is_refused(save, lines):
    """There would be nothing to measure."""
    with pytest.raises(memdb.InvalidInput, match="no question with evidence"):
        dataset.read(save([line for line in lines if line["type"] != "question"]))


def test_a_missing_file_is_a_file_error(tmp_path):
    """It is named."""
    with pytest.raises(memdb.FileError, match="nowhere"):
        dataset.read(tmp_path / "nowhere.jsonl")


def test_an_oracle_split_is_refused(save, lines):
    """Where every session holds evidence any answer is right."""
    everything = ["trip/1", "food/1", "work/1"]
    oracle = [
        line | {"evidence": everything} if line["type"] == "question" else line for line in lines
    ]

    with pytest.raises(memdb.InvalidInput, match="oracle split: for 8 of 8 questions"):
        dataset.read(save(oracle))


def test_documents_that_all_answer_are_an_oracle_too(save):
    """The same for sets without sessions."""
    made = [{"type": "document", "scope": "s", "id": "d", "text": "tea"}]
    made.append({"type": "question", "scope": "s", "id": "q", "text": "tea?", "evidence": ["d"]})

    with pytest.raises(memdb.InvalidInput, match="oracle split"):
        dataset.read(save(made))


def test_writing_never_replaces_a_file(tmp_path):
    """What is at the target stays."""
    (tmp_path / "set.jsonl").write_text("mine")

    with pytest.raises(memdb.FileError, match="exists"):
        dataset.write([], tmp_path / "set.jsonl")

    assert (tmp_path / "set.jsonl").read_text() == "mine"
