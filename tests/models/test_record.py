"""Records: values with named fields that are no sequences."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from pathlib import Path

import pytest

import memdb
from memdb.agents.discovery import Imported
from memdb.models.record import Record, RecordType
from memdb.models.reports import ImportReport
from memdb.transfer.lines import Item
from memdb.transfer.messages import MessageLine


class Point(Record):
    """
    A place.

    Attributes:
        x: To the right,
            in metres.
        y: Up.
        label: Its name.
    """

    x: int
    y: int = 2
    label: object = None


class Single(Record):
    """One field."""

    value: object


def test_fields_come_by_place_by_name_or_from_the_default() -> None:
    assert Point(1) == Point(x=1, y=2, label=None)
    assert Point(1, 3).y == 3


@pytest.mark.parametrize(
    "wrong", [lambda: Point(), lambda: Point(1, z=2), lambda: Point(1, 2, "a", 4)]
)
def test_wrong_arguments_are_a_type_error_that_names_the_class(wrong: object) -> None:
    with pytest.raises(TypeError, match="Point"):
        wrong()


def test_a_changed_record_is_another_one() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.other = 2
    assert point.replace(x=2) == Point(2)
    assert point.x == 1
    with pytest.raises(TypeError, match="z"):
        point.replace(z=2)


def test_a_record_is_shown_without_what_is_as_always() -> None:
    assert repr(Point(1)) == "Point(x=1)"
    assert repr(Point(1, 3, [2])) == "Point(x=1, y=3, label=[2])"
    assert repr(Point(1, None)) == "Point(x=1, y=None)"
    assert repr(Single(None)) == "Single()"


def test_a_repr_fits_a_line() -> None:
    """Of rows it shows how many there are, of a long text the beginning."""
    assert repr(Single((Point(1), Point(2)))) == "Single(value=<2 Points>)"
    assert repr(Single("a" * 81)) == f"Single(value={'a' * 80!r}...)"
    assert repr(Single(("a", "b"))) == "Single(value=('a', 'b'))"


@pytest.mark.parametrize("record", [memdb.Message, memdb.Piece, MessageLine, Item])
def test_a_constructor_by_hand_takes_the_fields(record: type[Record]) -> None:
    """By place, by name, and with the defaults that the class names."""
    values = dict(zip(record._fields, range(len(record._fields)), strict=True))
    needed = {field: values[field] for field in record._fields if field not in record._defaults}

    assert record(*values.values())._asdict() == values
    assert record(**values)._asdict() == values
    assert record(**needed)._asdict() == {**record._defaults, **needed}
    with pytest.raises(TypeError, match="missing"):
        record()


def test_a_record_is_no_sequence() -> None:
    point = Point(1)
    for use in (iter, len, lambda one: one[0], lambda one: (*one, 1), lambda one: one * 2):
        with pytest.raises(TypeError):
            use(point)
    with pytest.raises(TypeError):
        _ = point < Point(2)
    with pytest.raises(TypeError):
        _ = 1 in point
    assert not isinstance(point, tuple)
    for name in ("count", "index"):
        assert not hasattr(memdb.Message, name)


def test_json_refuses_a_record_and_takes_its_dict() -> None:
    with pytest.raises(TypeError):
        json.dumps(Point(1))
    assert json.loads(json.dumps(Point(1, label=Single([Point(2)])).to_dict())) == {
        "x": 1,
        "y": 2,
        "label": {"value": [{"x": 2, "y": 2, "label": None}]},
    }
    assert Single(frozenset({"b", "a"})).to_dict() == {"value": ["a", "b"]}


def test_records_of_other_classes_are_never_equal() -> None:
    class Other(Record):
        """The same fields."""

        value: object

    assert Single(1) != Other(1)
    assert Single(1) != (1,)
    assert Single((1, 2)) == Single((1, 2))


def test_equal_records_hash_alike_whatever_they_hold() -> None:
    assert hash(Point(1)) == hash(Point(1))
    assert hash(Point(1, label={"a": 1})) == hash(Point(1, label={"a": 1}))
    assert len({Point(1), Point(1), Point(2)}) == 2
    assert hash(Single(1)) == hash(Single(1))


def test_copies_and_pickles_are_equal() -> None:
    for record in (Point(1, label="a"), Single((1, 2)), Single("text")):
        assert copy.copy(record) == copy.deepcopy(record) == record
        assert pickle.loads(pickle.dumps(record)) == record
        assert record.replace() == record


def test_a_class_pattern_matches_by_place_and_by_name() -> None:
    match Point(1, 5):
        case Point(1, label=label, y=y):
            assert (label, y) == (None, 5)
        case _:
            pytest.fail("no match")


def test_the_signature_names_every_field() -> None:
    assert str(inspect.signature(Point)) == "(x: 'int', y: 'int' = 2, label: 'object' = None)"
    assert [*inspect.signature(memdb.NewMessage).parameters][:3] == ["role", "text", "author"]


def test_a_class_whose_annotations_were_lost_is_refused() -> None:
    # Python 3.14 keeps annotations in a function unless the module has the
    # future import; a record without fields would be the silent result.
    with pytest.raises(TypeError, match="from __future__ import annotations"):
        RecordType("Lost", (Record,), {"__annotate_func__": lambda _format: {"x": int}})


def test_a_record_has_no_other_base() -> None:
    with pytest.raises(TypeError, match="only base"):
        RecordType("Child", (Point,), {"__annotations__": {"z": "int"}})


def test_every_module_with_records_has_the_future_import() -> None:
    root = Path(memdb.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "(Record)" in text:
            assert "from __future__ import annotations" in text, path


def test_an_answer_keeps_its_facts_when_it_is_sliced() -> None:
    hit = memdb.Hit("message", "tea", 1.0, 1, memdb.Source(session="s", seq=1))
    hits = memdb.Hits((hit, hit.replace(rank=2)), ("lexical",), {"vector": "no embedder"})
    assert len(hits) == 2
    assert [one.rank for one in hits] == [1, 2]
    assert hits[1].rank == 2
    assert hits[:1] == memdb.Hits((hit,), ("lexical",), {"vector": "no embedder"})
    assert not memdb.Hits()
    with pytest.raises(TypeError):
        json.dumps(hits)
    assert json.loads(json.dumps(hits.to_dict()))["arms"] == ["lexical"]


COUNTS = {
    1: "1 message in 1 new session, 1 branch of a session, 1 summary, 1 entry, 1 artifact version, "
    "1 item, 1 setting (csv); 4 were here already; 1 was forgotten here and stays away.",
    2: "2 messages in 2 new sessions, 2 branches of sessions, 2 summaries, 2 entries, 2 artifact "
    "versions, 2 items, 2 settings (csv); 8 were here already; 2 were forgotten here and stay away.",
}


@pytest.mark.parametrize("number", [1, 2])
def test_one_of_a_thing_is_in_the_singular(number: int) -> None:
    """Each count of the reports of imports."""
    fields = {one: number for one, kind in ImportReport.__annotations__.items() if kind == "int"}
    report = ImportReport("csv", **fields)
    imported = Imported(number, number, number, {}, {"empty": number}, {})
    one = number == 1

    assert str(report) == f"Imported {COUNTS[number]}"
    assert str(ImportReport("csv", entries_known=1)).endswith("; 1 was here already.")
    assert str(imported) == (
        "Added 1 message of 1 session, from 1 transcript.\nLeft out:\n  1 line empty"
        if one
        else "Added 2 messages of 2 sessions, from 2 transcripts.\nLeft out:\n  2 lines empty"
    )
