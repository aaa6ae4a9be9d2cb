"""What a comment or a docstring gives as its source can be looked up."""

import ast
import builtins
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

import pytest
from source_tree import CHECKOUT, FILES, ROOT, nodes_of, text_of

# A URL, a paper by author and year, a standard; decisions, programs and pages are files.
PUBLIC = re.compile(
    r"https?://\S+|\b[A-Z][\w&. ]+ (et al\. )?(19|20)\d\d\b|\bRFC \d+|\b\w+\.org/\S+"
)
DECISION = re.compile(r"\bADR-(\d{4})\b")
PLACE = re.compile(r"\b(?:bench|docs|memdb|tests)/[\w/.-]*\w\.(?:py|md|sql|txt)\b|\bschema\.sql\b")
# Files whose sources are names of systems or of documents that are not here; only ever fewer.
MOST_UNKNOWN = 0

pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "docs" / "adr").is_dir(), reason="not run from a checkout"
)


def sources(file: str) -> Iterator[str]:
    """Yield what follows each "Source:" in comments and docstrings of a file, up to a blank line."""
    text = text_of(file)
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.STRING and "Source:" in token.string:
            for found in token.string.split("Source:")[1:]:
                yield " ".join(found.split("\n\n")[0].split())
    lines = [line.strip() for line in text.splitlines()]
    for n, line in enumerate(lines):
        if line.startswith("#") and "Source:" in line:
            rest = lines[n + 1 : n + 4]
            stop = next((i for i, one in enumerate(rest) if not one.startswith("#")), len(rest))
            yield " ".join([line.split("Source:")[1], *(one.lstrip("# ") for one in rest[:stop])])


def can_be_looked_up(source: str) -> bool:
    """Return whether a source names something public, or files of this repository that exist."""
    decisions = DECISION.findall(source)
    places = PLACE.findall(source)
    found = [next((CHECKOUT / "docs" / "adr").glob(f"{one}-*.md"), None) for one in decisions]
    found += [CHECKOUT / one for one in places]
    if not all(one is not None and one.exists() for one in found):
        return False
    return bool(found) or PUBLIC.search(source) is not None


def test_each_source_can_be_looked_up() -> None:
    """A URL, a paper, a standard, or a decision, program or page of this repository."""
    unknown = [(file, one) for file in FILES for one in sources(file) if not can_be_looked_up(one)]

    assert len(unknown) <= MOST_UNKNOWN, unknown


# Names of other programs, and examples, that docstrings quote.
FOREIGN = frozenset(
    "FILE.vN.bak AdvancedSQLiteSession BaseDb OpenAIResponsesCompactionSession RepositorySessionManager "
    "StorageBackend MyActivity.json dataclasses memory_table session_table pg_amcheck set_llm_cache "
    "session_1 session_1_date_time session_2 vec_quantize_binary xxxx zcat caféбар".split()
)


def test_each_name_in_backticks_exists() -> None:
    """In docstrings of memdb: the name of something in its code, in schema.sql or in Python."""
    known = {*re.findall(r"\w+", (CHECKOUT / "schema.sql").read_text("utf-8")), *dir(builtins)}
    known |= {part for file in ROOT.glob("web/static/**/*") for part in file.name.split(".")}
    quoted: dict[str, str] = {}
    for file in FILES:
        code = text_of(file)
        for node in nodes_of(file):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                told = ast.get_docstring(node, clean=False) or ""
                names = re.findall(r"`([A-Za-z_][\w.]*)(?:\(\))?`", told)
                quoted |= dict.fromkeys(names, f"{file}: {told[:40]}")
                code = code.replace(told, "") if told else code
        known |= {*re.findall(r"\w+", re.sub("#.*", "", code))}

    unknown = {name: place for name, place in quoted.items() if not {*name.split(".")} <= known}

    assert len(quoted) > 900
    assert {name: place for name, place in unknown.items() if name not in FOREIGN} == {}


def test_no_page_has_the_marks_of_a_merge() -> None:
    """Each is what somebody decided, not two tries of it."""
    pages = [page for folder in ("docs", ".") for page in (CHECKOUT / folder).glob("*.md")]
    pages += (CHECKOUT / "docs").glob("*/**/*.md")
    marked = [page for page in pages if "\n<<<<<<< " in page.read_text(encoding="utf-8")]

    assert marked == []
