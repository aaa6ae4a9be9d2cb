"""
Convert public data sets on disk to the JSON lines of `memdb bench`.

Formats: LoCoMo (Maharana et al. 2024, github.com/snap-research/locomo), LongMemEval (Wu et
al. 2024, github.com/xiaowu0162/LongMemEval), BEAM (Tavakoli et al.
2025, github.com/mohammadtavakoli78/BEAM), BEIR (Thakur et al. 2021,
github.com/beir-cellar/beir). Speaker, time and id of each turn are kept.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.errors import FileError, InvalidInput
from memdb.evaluation.dataset import TURN_MS
from memdb.formats.imports import locomo

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

LOCOMO_CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}

# A few evidence strings hold several ids, or a colon too many ("D8:6; D9:17", "D:11:26").
_EVIDENCE = re.compile(r"D:?\s*(\d+):0*(\d+)")
_BEAM_END = re.compile(r"->->\s*[\d,\s]+$")  # where the turn stands in BEAM's plan
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")


def convert(kind: str, source: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """
    Yield the lines of a data set.

    Args:
        kind: One of `KINDS`.
        source: A file of it, or a folder with such files; for BEIR the folder
            with corpus.jsonl, queries.jsonl and qrels.

    Raises:
        FileError: *source* is not there.
        InvalidInput: *kind* is unknown, or a file is not of that kind.
    """
    if kind not in KINDS:
        raise InvalidInput(f"kind is {kind!r}: use {', '.join(KINDS)}")
    path = Path(source)
    if not path.exists():
        raise FileError(f"{path} does not exist: check the path", str(path))
    try:
        yield from KINDS[kind](path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__} {error}"
        raise InvalidInput(f"{path} differs from the published {kind}: {what}") from error


def kind_of(source: str | os.PathLike[str]) -> str | None:
    """
    Return which of `KINDS` is at *source*; None for memdb's own JSON lines (.jsonl).

    Raises:
        FileError: *source* is not there.
        InvalidInput: the format is none that is known.
    """
    path = Path(source)
    if not path.exists():
        raise FileError(f"{path} does not exist: check the path", str(path))
    if path.is_dir():
        if (path / "corpus.jsonl").exists():
            return "beir"
        if next(path.rglob("chat.json"), None) is not None:
            return "beam"
        path = next(iter(sorted(path.glob("*.json"))), path)
    if path.suffix == ".jsonl":
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not a data set: {KNOWN}") from error
    one = content[0] if isinstance(content, list) and content else content
    for kind, field in SIGNS.items():
        if isinstance(one, dict) and field in one:
            return kind
    raise InvalidInput(f"{path} is not a data set: {KNOWN}")


def _locomo(path: Path) -> Iterator[dict[str, Any]]:
    for name, talk in _talks(path):
        messages = [
            {"type": "message", "scope": name, **item.fields, "id": item.fields["external_id"]}
            for item in locomo.read(talk)
        ]
        for line in messages:
            del line["external_id"]
        yield from messages
        yield from _questions(name, talk["qa"], messages)


def _talks(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and contents of each conversation: of a file of one or many, or of a folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(content, list):
            for place, talk in enumerate(content):
                yield str(talk.get("sample_id", f"{file.stem}-{place + 1}")), talk
        else:
            yield file.stem, content


def _questions(
    scope: str, asked: Iterable[dict[str, Any]], messages: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    known = {line["id"] for line in messages}
    for place, one in enumerate(asked):
        given = one.get("evidence") or []
        texts = [given] if isinstance(given, str) else [str(each) for each in given]
        evidence = {
            f"D{day}:{turn}" for each in texts for day, turn in _EVIDENCE.findall(each)
        } & known
        yield {
            "type": "question",
            "scope": scope,
            "id": f"{scope}/{place + 1}",
            "text": one["question"],
            "category": LOCOMO_CATEGORIES.get(one["category"], str(one["category"])),
            "evidence": sorted(evidence),
        }


def _longmemeval(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each question with its own history."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    for file in files:
        for one in json.loads(file.read_text(encoding="utf-8")):
            yield from _history(one)


def _history(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    scope = one["question_id"]
    evidence, is_answered = [], not scope.endswith("_abs")
    histories = zip(
        one["haystack_session_ids"], one["haystack_dates"], one["haystack_sessions"], strict=True
    )
    sessions: set[str] = set()
    for session, date, turns in histories:
        if session in sessions:
            continue  # a filler session may be drawn twice
        sessions.add(session)
        start = _time_ms(_WEEKDAY.sub(" ", date), "%Y/%m/%d %H:%M")
        for place, turn in enumerate(turns, start=1):
            id_ = f"{session}/{place}"
            if turn.get("has_answer") and is_answered:
                evidence.append(id_)
            yield {
                "type": "message",
                "scope": scope,
                "session": session,
                "id": id_,
                "role": turn["role"],
                "text": turn["content"],
                "created_ms": start + TURN_MS * place,
            }
    yield {
        "type": "question",
        "scope": scope,
        "id": scope,
        "text": one["question"],
        "category": one["question_type"] if is_answered else "abstention",
        "evidence": evidence,
        "sessions": sorted(sessions.intersection(one["answer_session_ids"] * is_answered)),
        "asked_ms": _time_ms(_WEEKDAY.sub(" ", one["question_date"]), "%Y/%m/%d %H:%M"),
    }


def _beam(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each conversation, a folder with chat.json; a batch is a session."""
    folders = sorted((file.parent for file in path.rglob("chat.json")), key=_numbered)
    if not folders:
        raise FileError(f"{path} has no chat.json: give BEAM's folder chats/100K", str(path))
    for folder in folders:
        messages = [*_batches(folder)]
        yield from messages
        counts = Counter(line["id"] for line in messages)
        asked = json.loads(
            (folder / "probing_questions" / "probing_questions.json").read_text(encoding="utf-8")
        )
        for category, questions in asked.items():
            for place, one in enumerate(questions, start=1):
                evidence = {str(id_) for id_ in _ids_in(one.get("source_chat_ids"))}
                yield {
                    "type": "question",
                    "scope": folder.name,
                    "id": f"{folder.name}/{category}/{place}",
                    "text": one["question"],
                    "category": category,
                    "evidence": sorted(id_ for id_ in evidence if counts[id_] == 1),
                }


def _numbered(folder: Path) -> tuple[int, str]:
    return int(folder.name) if folder.name.isdigit() else 0, folder.name


def _batches(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the turns of a conversation; an id that comes again gets its place added."""
    seen: Counter[str] = Counter()
    for batch in json.loads((folder / "chat.json").read_text(encoding="utf-8")):
        turns = [turn for group in batch["turns"] for turn in group]
        anchor = batch.get("time_anchor") or next(
            (turn["time_anchor"] for turn in turns if turn.get("time_anchor")), None
        )
        start = None if anchor is None else _time_ms(anchor, "%B-%d-%Y")
        for place, turn in enumerate(turns, start=1):
            id_ = str(turn["id"])
            seen[id_] += 1
            line = {
                "type": "message",
                "scope": folder.name,
                "session": f"batch{batch['batch_number']}",
                "id": id_ if seen[id_] == 1 else f"{id_}#{seen[id_]}",
                "role": turn["role"],
                "text": _BEAM_END.sub("", turn["content"]).strip(),
            }
            yield line if start is None else {**line, "created_ms": start + TURN_MS * place}


def _ids_in(value: Any) -> Iterator[int]:
    """Yield the numbers in lists and dicts of any depth."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _ids_in(one)


def _beir(path: Path) -> Iterator[dict[str, Any]]:
    scope = path.resolve().name
    known = set()
    for line in _lines(path / "corpus.jsonl"):
        text = "\n".join(part for part in (line.get("title"), line["text"]) if part)
        if text.strip():
            known.add(str(line["_id"]))
            yield {"type": "document", "scope": scope, "id": str(line["_id"]), "text": text}
    queries = {str(line["_id"]): line["text"] for line in _lines(path / "queries.jsonl")}
    judged: dict[str, list[str]] = {}
    with _qrels(path).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0 and row["corpus-id"] in known:
                judged.setdefault(row["query-id"], []).append(row["corpus-id"])
    for query, evidence in judged.items():
        yield {
            "type": "question",
            "scope": scope,
            "id": query,
            "text": queries[query],
            "category": scope,
            "evidence": sorted(evidence),
        }


def _qrels(path: Path) -> Path:
    """Return the file of judgements: of the test split, else the first one."""
    found = sorted((path / "qrels").glob("*.tsv"))
    named = [one for one in found if one.stem == "test"]
    if not found:
        raise FileError(f"{path}/qrels has no .tsv file: download the whole data set", str(path))
    return (named or found)[0]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield json.loads(line)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error


def _time_ms(text: str, form: str) -> int:
    moment = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


KINDS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "locomo": _locomo,
    "longmemeval": _longmemeval,
    "beam": _beam,
    "beir": _beir,
}
"""What can be converted."""

# A field that only files of that kind have at the top.
SIGNS = {"longmemeval": "haystack_sessions", "locomo": "qa"}
KNOWN = f"give {', '.join(KINDS)} as published, or the JSON lines (.jsonl) of docs/evaluation.md"
