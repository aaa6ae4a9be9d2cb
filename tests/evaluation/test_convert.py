"""Converting what is published: each format, and what is not of it."""

import json

import pytest

import memdb
from memdb.evaluation import convert, dataset

LOCOMO = {
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bea",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a red boat"},
            {"speaker": "Bea", "dia_id": "D1:2", "text": "Nice."},
        ],
        "session_2_date_time": "9:00 am on 9 May, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Back home."}],
        "session_3_date_time": "9:00 am on 10 May, 2023",
    },
    "qa": [
        {"question": "Which boat?", "evidence": ["D1:01; D2:1"], "category": 1},
        {"question": "Why?", "evidence": ["D9:9"], "category": 5},
    ],
}


def longmemeval(*, oracle, id_="q1"):
    """Return one question with its history, or only with its evidence."""
    kept = 1 if oracle else 2
    return [
        {
            "question_id": id_,
            "question_type": "multi-session",
            "question": "Which tea?",
            "question_date": "2023/05/30 (Tue) 23:40",
            "answer_session_ids": ["answer_1"],
            "haystack_session_ids": ["answer_1", "other"][:kept],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"][:kept],
            "haystack_sessions": [
                [
                    {"role": "user", "content": "I like green tea.", "has_answer": True},
                    {"role": "assistant", "content": "Noted."},
                ],
                [{"role": "user", "content": "Write a poem."}],
            ][:kept],
        },
    ]


def test_locomo_keeps_speakers_times_and_captions(tmp_path):
    """Malformed evidence is read, and what names no turn is left out."""
    (tmp_path / "conv-1.json").write_text(json.dumps(LOCOMO))

    lines = list(convert.convert("locomo", tmp_path))

    assert lines[0] == {
        "type": "message",
        "scope": "conv-1",
        "session": "session_1",
        "id": "D1:1",
        "role": "user",
        "author": "Ann",
        "text": "Look! [shares: a red boat]",
        "created_ms": 1_683_554_160_000,
    }
    assert lines[1]["created_ms"] == 1_683_554_220_000
    assert [line["evidence"] for line in lines[3:]] == [["D1:1", "D2:1"], []]
    assert lines[3]["category"] == "multi-hop"


def test_locomo_comes_in_one_file_too(tmp_path):
    """Then the conversations are named by their ids."""
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([LOCOMO | {"sample_id": "conv-7"}]))

    assert {line["scope"] for line in convert.convert("locomo", path)} == {"conv-7"}


def test_longmemeval_gives_each_question_its_history(tmp_path):
    """Turns that hold the answer are evidence; of a question without an answer none are."""
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps(longmemeval(oracle=False, id_="q2_abs") + longmemeval(oracle=False)))

    lines = list(convert.convert("longmemeval", path))

    assert lines[-1] == {
        "type": "question",
        "scope": "q1",
        "id": "q1",
        "text": "Which tea?",
        "category": "multi-session",
        "evidence": ["answer_1/1"],
        "sessions": ["answer_1"],
        "asked_ms": 1_685_490_000_000,
    }
    unanswerable = lines[-5]
    assert len(lines) == 8
    assert [unanswerable[name] for name in ("category", "evidence", "sessions")] == [
        "abstention",
        [],
        [],
    ]


def test_the_oracle_split_of_longmemeval_is_refused(tmp_path):
    """It converts, and is not measured."""
    path = tmp_path / "longmemeval_oracle.json"
    path.write_text(json.dumps(longmemeval(oracle=True)))
    dataset.write(convert.convert("longmemeval", path), tmp_path / "set.jsonl")

    with pytest.raises(memdb.InvalidInput, match="oracle"):
        dataset.read(tmp_path / "set.jsonl")


def test_beir_becomes_documents_with_judgements(tmp_path):
    """The test split; what is judged 0 is no evidence."""
    corpus = [
        {"_id": "d1", "title": "Tea", "text": "It is green."},
        {"_id": "d2", "title": "", "text": "Coffee."},
        {"_id": "d3", "title": "", "text": " "},
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "which tea?"}\n')
    (tmp_path / "qrels").mkdir()
    head = "query-id\tcorpus-id\tscore\n"
    (tmp_path / "qrels" / "test.tsv").write_text(f"{head}q1\td1\t1\nq1\td2\t0\n")
    (tmp_path / "qrels" / "dev.tsv").write_text(head)

    lines = list(convert.convert("beir", tmp_path))

    assert [line["type"] for line in lines] == ["document", "document", "question"]
    assert lines[0]["text"] == "Tea\nIt is green."
    assert lines[2]["evidence"] == ["d1"]


def test_beam_keeps_batches_roles_and_anchors(tmp_path):
    """A batch is a session; ids that are there twice are no evidence, nor has abstention any."""
    folder = tmp_path / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    turn = {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "Plan. ->-> 1,1"}
    answer = {"role": "assistant", "id": 1, "content": "Here it is."}
    again = {"role": "user", "id": 1, "content": "Thanks."}
    batches = [
        {"batch_number": 1, "time_anchor": "March-15-2024", "turns": [[turn, answer]]},
        {"batch_number": 2, "time_anchor": None, "turns": [[again]]},
    ]
    (folder / "chat.json").write_text(json.dumps(batches))
    asked = {
        "abstention": [{"question": "Who?", "rubric": []}],
        "knowledge_update": [{"question": "What?", "source_chat_ids": {"a": [0], "b": [1, 7]}}],
    }
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    lines = [*convert.convert("beam", tmp_path / "100K")]

    asked_ids = ["1/abstention/1", "1/knowledge_update/1"]
    assert [line.get("session") for line in lines] == ["batch1", "batch1", "batch2", None, None]
    assert [line["id"] for line in lines] == ["0", "1", "1#2", *asked_ids]
    assert (lines[0]["text"], lines[0]["created_ms"]) == ("Plan.", 1_710_460_860_000)
    assert "created_ms" not in lines[2]
    assert [line["evidence"] for line in lines[3:]] == [[], ["0", "1"]]
    assert convert.kind_of(tmp_path / "100K") == "beam"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"qa": [], "conversation": {}}, "locomo"),
        ([{"qa": []}], "locomo"),
        ([{"haystack_sessions": []}], "longmemeval"),
    ],
)
def test_the_kind_is_found_by_content(tmp_path, content, kind):
    """In a file, and in a folder of such files."""
    (tmp_path / "x.json").write_text(json.dumps(content))

    assert convert.kind_of(tmp_path / "x.json") == kind
    assert convert.kind_of(tmp_path) == kind


@pytest.mark.parametrize("content", ["{}", "[]", "no", "3", "[" * 99_999])
def test_what_is_no_data_set_is_named(tmp_path, content):
    """With what would be one."""
    (tmp_path / "x.json").write_text(content)

    with pytest.raises(memdb.InvalidInput, match="is not a data set: give locomo"):
        convert.kind_of(tmp_path / "x.json")


@pytest.mark.parametrize("kind", sorted(convert.KINDS))
def test_a_file_of_another_kind_is_refused(tmp_path, kind):
    """The error names the kind, and is one of memdb's."""
    (tmp_path / "x.json").write_text('{"what": 1}')

    with pytest.raises(memdb.MemDBError):
        list(convert.convert(kind, tmp_path))


def test_an_unknown_kind_and_a_missing_source_are_refused(tmp_path):
    """Before anything is read."""
    with pytest.raises(memdb.InvalidInput, match="locomo"):
        list(convert.convert("squad", tmp_path))
    with pytest.raises(memdb.FileError, match="does not exist"):
        list(convert.convert("beir", tmp_path / "nowhere"))
