"""
Recall that can say no: questions that nothing answers, and what the floor costs those that are.

    python bench/unrelated.py [--half report] [--json PATH] [--folder DIR] [--beam FILE]

Fifty questions were written before the floor was chosen: `CHOOSE` to choose it, `REPORT` to report
it; `{name}` is a name of the scope. Each is asked in two LoCoMo conversations, in two chats of BEAM
and in a scope of ten facts, and at most one of 25 may have a hit. Then R@10 of every question with
evidence, without a floor and with it: it may lose 0.005. The data sets are not part of memdb:
evaluation only (LoCoMo CC BY-NC 4.0, BEAM CC BY-SA 4.0).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import locomo_data

import memdb
from memdb.evaluation import convert, dataset, measuring

BEAM = Path(__file__).resolve().parents[2] / "shared" / "data" / "beam" / "dev.jsonl"
SCOPES = 2
MOST_HITS, MOST_LOSS = 1, 0.005

CHOOSE = [
    "Who won the world cup in 1998?",
    "What is the boiling point of tungsten?",
    "How do I reset the password of my router?",
    "Which planet has the most moons?",
    "When was the Treaty of Westphalia signed?",
    "What is the capital of Burkina Faso?",
    "How many bits are in an IPv6 address?",
    "Explain the offside rule in hockey.",
    "What does a carburettor do?",
    "Who composed the Brandenburg Concertos?",
    "xyzzy quux",
    "How is penicillin produced?",
    "What are the side effects of ibuprofen?",
    "Which glacier is the longest in Alaska?",
    "How do I sharpen a chainsaw?",
    "What is the atomic number of cobalt?",
    "What is {name}'s shoe size?",
    "Which dentist does {name} go to?",
    "How long does it take to sail around the Horn?",
    "What time does the stock exchange in Tokyo open?",
    "Wie viele Einwohner hat Luxemburg?",
    "¿Cuál es la montaña más alta de Bolivia?",
    "富士山有多高?",
    "Кто изобрёл паровую машину?",
    "自転車のタイヤの空気圧は?",
]
REPORT = [
    "Who invented the telescope?",
    "What is the melting point of gallium?",
    "How do I descale an espresso boiler?",
    "Which river flows through Baghdad?",
    "When did the Ottoman Empire end?",
    "What is the capital of Mongolia?",
    "How many strings does a sitar have?",
    "Explain the rules of cribbage.",
    "What does a differential gear do?",
    "Who painted the Arnolfini portrait?",
    "frobnicate the wibble",
    "How is cement manufactured?",
    "What is the maximum dose of paracetamol?",
    "Which desert covers most of Botswana?",
    "How do I bleed a radiator?",
    "What is the half-life of caesium-137?",
    "What is {name}'s blood type?",
    "Which bank does {name} use?",
    "What licence plate does {name}'s car have?",
    "How many people work in the Antarctic in winter?",
    "Quelle est la vitesse du son dans l'eau ?",
    "Qual è la ricetta del pesto alla genovese?",
    "黄河的长度是多少?",
    "Сколько струн у балалайки?",  # noqa: RUF001 (Russian)
    "ما هي عاصمة موريتانيا؟",
]
FACTS = [
    "Ann prefers window seats.",
    "The office is in Oslo.",
    "The printer is on floor 2.",
    "Lunch is at noon.",
    "Ann is allergic to peanuts.",
    "Ann's sister is called Mia.",
    "The wifi password is on the fridge.",
    "Ann plays the cello on Tuesdays.",
    "The car is parked in garage B.",
    "Ann's birthday is 4 March.",
]
RELATED_FACTS = [
    "which seats does Ann prefer?",
    "where is the office?",
    "which floor is the printer on?",
    "when is lunch?",
    "what must Ann not eat?",
    "who is Mia?",
    "where is the wifi password?",
    "what instrument does Ann play?",
    "where is the car?",
    "when was Ann born?",
]
FACTS_ASKED = [*range(10)]


def ask_unrelated(scope: memdb.Scope, name: str, questions: list[str]) -> list[dict]:
    """Return each question that has a hit at the default floor, with its best one."""
    found = []
    for question in questions:
        text = question.format(name=name)
        hits = scope.recall(text)
        if hits:
            found.append({"question": text, "score": hits[0].score, "text": hits[0].text[:120]})
    return found


def name_of(talks: dict[str, list]) -> str:
    """Return the author who says most, "the user" where nobody has a name."""
    said = [one.author for talk in talks.values() for one in talk if one.author]
    return max(sorted(set(said)), key=said.count) if said else "the user"


def recall_at_10(filled: measuring.Filled) -> dict[str, float]:
    """Return R@10 of all questions with evidence: without a floor, and with the default one."""
    found: dict[str, list[float]] = {"without": [], "with": []}
    for question in filled.data.questions:
        if not question.evidence:
            continue
        asked_ms = question.asked_ms
        filled.clock.now_ms = filled.ends[question.scope] if asked_ms is None else asked_ms
        scope = filled.db.scope(question.scope, measuring.APP)
        for name, least in (("without", 0.0), ("with", None)):
            hits = scope.recall(question.text, 10, kinds=("message",), min_score=least)
            ids = {hit.source.external_id for hit in hits}
            found[name].append(len(ids & set(question.evidence)) / len(question.evidence))
    return {name: measuring.mean(values) for name, values in found.items()}


def ask_facts(questions: list[str]) -> tuple[list[dict], list[str]]:
    """Return unrelated questions with a hit, and related ones without the right one, of ten facts."""
    with memdb.open(":memory:") as db:
        ann = db.scope("ann")
        for fact in FACTS:
            ann.remember(fact)
        lost = [
            question
            for question, fact in zip(RELATED_FACTS, FACTS_ASKED, strict=True)
            if FACTS[fact] not in [hit.text for hit in ann.recall(question)]
        ]
        return ask_unrelated(ann, "Ann", questions), lost


def measure(data: dataset.Dataset, questions: list[str]) -> dict:
    """Return unrelated questions with a hit in the first scopes, and R@10 in all."""
    clock = measuring.Clock()
    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(f"{folder}/unrelated.db", durability="process", clock=clock) as db,
    ):
        filled = measuring.filled(data, db, clock)
        unrelated = {}
        for scope in list(data.sessions)[:SCOPES]:
            clock.now_ms = filled.ends[scope]
            name = name_of(data.sessions[scope])
            unrelated[scope] = ask_unrelated(db.scope(scope, measuring.APP), name, questions)
        return {"unrelated": unrelated, "R@10": recall_at_10(filled)}


def judge(told: dict) -> int:
    """Print what was measured beside the bars; return how many were missed."""
    missed = 0
    for corpus in ("locomo", "beam"):
        for scope, found in told[corpus]["unrelated"].items():
            missed += len(found) > MOST_HITS
            print(f"{corpus} {scope}: {len(found)} of {told['asked']} unrelated have a hit")
            print("\n".join(f"    {one['score']:.2f}  {one['question']}" for one in found))
        recalled = told[corpus]["R@10"]
        loss = recalled["without"] - recalled["with"]
        missed += corpus == "locomo" and loss > MOST_LOSS
        print(f"{corpus} R@10 {recalled['without']:.4f} -> {recalled['with']:.4f}, loss {loss:.4f}")
    found = told["facts"]["unrelated"]
    missed += len(found) > MOST_HITS
    print(f"ten facts: {len(found)} of {told['asked']} unrelated have a hit")
    print("\n".join(f"    {one['score']:.2f}  {one['question']}" for one in found))
    print(f"ten facts: {len(told['facts']['lost'])} of 10 related are not found")
    print(f"{missed} bars missed")
    return missed


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    parser.add_argument("--beam", type=Path, default=BEAM)
    given = parser.parse_args()
    questions = CHOOSE if given.half == "choose" else REPORT
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "locomo.jsonl"
        dataset.write(convert.convert("locomo", given.folder), path)
        told = {"half": given.half, "asked": len(questions)}
        told["locomo"] = measure(dataset.read(path), questions)
    told["beam"] = measure(dataset.read(given.beam), questions)
    unrelated, lost = ask_facts(questions)
    told["facts"] = {"unrelated": unrelated, "lost": lost}
    if given.json:
        given.json.write_text(json.dumps(told, indent=2, ensure_ascii=False))
    sys.exit(1 if judge(told) else 0)


if __name__ == "__main__":
    main()
