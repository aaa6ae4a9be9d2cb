"""Files of this repository that a document names are there."""

import importlib
import re
from pathlib import Path

from cases import each
from source_tree import list_tests

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*.md"),
        ROOT / "schema.sql",
    ]
)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
QUOTED = re.compile(r"`((?:memdb|tests|bench|docs|examples)/[\w/.-]*)`")
NAMED = re.compile(r"(?<![\w./-])(?:bench|docs|memdb|tests)/[\w/.-]*\w\.(?:py|md|sql|txt)\b")
MODULE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")  # of memdb, without the package
DOTTED = re.compile(r"`(memdb(?:\.\w+)+)[`(]")
CLIENTS = "memdb.integrations."  # their modules need the client's package
MADE = {"bench/peers/.venvs", "bench/results/"}  # by a command, never committed


@each("page", PAGES)
def test_each_path_in_a_document_exists(page):
    """By link, in single backticks, or as the name of a file in a sentence."""
    text = page.read_text(encoding="utf-8")
    links = [one.split("#")[0] for one in LINK.findall(text)]
    places = {*QUOTED.findall(text), *NAMED.findall(text)} - MADE

    assert [one for one in links if not (page.parent / one).exists()] == []
    assert sorted(one for one in places if not (ROOT / one).exists()) == []
    roots = ROOT, ROOT / "memdb", ROOT / "tests"
    modules = {one for one in MODULE.findall(text) if not any((at / one).exists() for at in roots)}
    assert modules == set()


@each("page", PAGES)
def test_each_dotted_name_in_a_document_exists(page):
    """A module of memdb, or what is in it."""
    names = {*DOTTED.findall(page.read_text(encoding="utf-8"))}

    assert [one for one in names if not one.startswith(CLIENTS) and resolve(one) is None] == []


@each("page", PAGES)
def test_each_test_in_a_document_exists(page):
    """`FILE::NAME` leads to a function."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))

    assert [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    ] == []


def test_each_contract_names_its_test():
    """A sentence of docs/contracts.md without a test is no contract."""
    text = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "promise" not in line]

    assert len(rows) > 40
    assert [line for line in rows if not re.search(r"\| `tests/[\w/]+\.py::\w+` \|$", line)] == []


def test_the_tour_of_the_source_leads_to_functions():
    """Each name of "Reading the source" can be imported."""
    tour = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Reading the source")[1]
    names = re.findall(r"^\d\. `(memdb\.[\w.]+)`", tour, re.MULTILINE)

    assert len(names) == 8
    assert [name for name in names if not callable(resolve(name))] == []


def test_each_name_in_contributing_exists():
    """What stands in backticks like a name of the code is one: as a whole, or its end."""
    quoted = re.findall(r"`([A-Za-z_.]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    sources = [*ROOT.glob("memdb/**/*.py"), *list_tests(), ROOT / "schema.sql"]
    names = {
        *re.findall(r"\w+", "\n".join(one.read_text(encoding="utf-8") for one in sources)),
        *(part for one in ROOT.rglob("memdb/web/static/*") for part in one.name.split(".")),
    }
    names |= {name[name.rfind("_") :] for name in names}  # `_ms`
    names |= {name[: name.find("_") + 1] for name in names}  # `is_`
    unknown = [one for one in quoted if not {*one.strip(".").split(".")} <= names]

    assert len(quoted) > 30
    assert unknown == []


def resolve(name):
    """Return what a dotted name leads to, None if it leads nowhere."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            found = getattr(found, part, None)
        return found
    return None
