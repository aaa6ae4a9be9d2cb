"""
Find words that a reader stumbles over, in sources, in the help of commands and in documents.

    python docs/words.py            # every finding; there must be none
    python docs/words.py web cli    # those of these packages, "help" or "docs"

CONTRIBUTING has the rules. A test in tests/architecture compares.
"""

from __future__ import annotations

import ast
import re
import sys
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 25  # words of a sentence
LEAST = 4  # words of the help of an option
RELATIVE = re.compile(r"(what|who|whose|whoever|whom|which|that|those)\b", re.IGNORECASE)
RETIRED = re.compile(
    r"\b(anew|mend(?:s|ed|ing)?|glued|tenfold|whoever|stands? for|stood for|"
    r"(?:is|are) (?:said|told)|says? so|of which)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W\d_][\w'-]*")
END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)[)\"”*]*\s+|(?<=[:;])\s+(?=[A-Z*`\[\"“(0-9])|"
    r"\n\s*\n|\n\s*[-*|#>] |\n\s*\d+\. |\|"
)


class Finding(NamedTuple):
    """A place, the rule that it breaks, and its words."""

    place: str
    rule: str
    text: str


def main(names: list[str]) -> int:
    """Print the findings, all or those of *names*; return 1 if there are any."""
    found = [one for name, ones in collect().items() if not names or name in names for one in ones]
    for one in found:
        print(f"{one.place}: {one.rule}: {one.text}")  # noqa: T201 (a command)
    return 1 if found else 0


def collect() -> dict[str, list[Finding]]:
    """Return the findings of each package of memdb, and of the documents as "docs"."""
    found: dict[str, list[Finding]] = {}
    for path in sorted((ROOT / "memdb").rglob("*.py")):
        inside = path.relative_to(ROOT / "memdb")
        if "data" in inside.parts:
            continue
        package = inside.parts[0] if len(inside.parts) > 1 else "memdb"
        found.setdefault(package, []).extend([*of_module(path), *of_lines(path)])
    for path in sorted((ROOT / "memdb" / "web" / "static").rglob("*.js")):
        found["web"].extend(of_lines(path))
    found["help"] = list(of_help())
    found["docs"] = [one for path in documents() for one in of_document(path)]
    return found


def documents() -> list[Path]:
    """Return the pages of the first folder and of docs/, without decisions."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "adr"]
    at_root = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    return [*(ROOT / f"{name}.md" for name in at_root), *sorted(pages)]


def of_module(path: Path) -> Iterator[Finding]:
    """Yield the findings in the docstrings of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not (text := ast.get_docstring(node)):
            continue
        line = node.body[0].lineno
        yield from of_docstring(f"{path.relative_to(ROOT)}:{line}", text, is_call(node))


def of_lines(path: Path) -> Iterator[Finding]:
    """Yield the retired words of a file, in its texts and comments too."""
    place = path.relative_to(ROOT)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield from of_words(f"{place}:{number}", line)


def of_words(place: str, text: str) -> Iterator[Finding]:
    """Yield the retired words of a text."""
    for match in RETIRED.finditer(text):
        yield Finding(place, "retired", match[0])


def is_call(node: ast.AST) -> bool:
    """Return whether *node* is a function that is called, and no property or test."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    names = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
    return not names & {"property", "cached_property", "by_settings", "overload"}


def of_docstring(place: str, text: str, call: bool) -> Iterator[Finding]:  # noqa: FBT001
    """Yield the findings of one docstring."""
    first = text.split("\n", maxsplit=1)[0]
    word = first.split(" ", 1)[0].strip("*`\"'.,:;").lower()
    if RELATIVE.match(first):
        yield Finding(place, "relative", first)
    elif call and word not in VERBS:
        yield Finding(place, "verb", first)
    prose = re.sub(r"^>>>.*?(?=\n\s*\n|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^ .*\S {3,}\S.*$", "", prose, flags=re.MULTILINE)  # columns of a table
    prose = re.sub(r"\n\n(?: {4}.*(?:\n|\Z))+", "\n\n", prose)  # a block of code
    yield from of_prose(place, prose)


def of_prose(place: str, text: str) -> Iterator[Finding]:
    """Yield long sentences."""
    for sentence in END.split(text):
        words = WORD.findall(re.sub(r"`[^`]*`", "x", sentence or ""))
        if len(words) > LONGEST:
            yield Finding(place, "long", f"{len(words)} words: {' '.join(sentence.split())[:150]}")


def of_document(path: Path) -> Iterator[Finding]:
    """Yield the findings of a page outside of its code, links and pictures."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    yield from of_words(str(path.relative_to(ROOT)), text)
    yield from of_prose(str(path.relative_to(ROOT)), text)


def of_help() -> Iterator[Finding]:
    """Yield the options whose help is shorter than LEAST words, and findings in texts of help."""
    from memdb.cli import cli

    for name, command in commands(click.Context(cli, info_name="memdb")):
        for option in command.params:
            text = option.help if isinstance(option, click.Option) else None
            if text is not None and len(WORD.findall(text)) < LEAST:
                yield Finding(f"{name} {option.opts[0]}", "short", text)
            yield from of_prose(f"{name} {option.opts[0]}", text or "")
        yield from of_prose(name, cleandoc(command.help or ""))


def commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield each command by its path, from the one of *context* down."""
    command = context.command
    yield context.command_path, command
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        if (child := command.get_command(context, name)) is not None:
            yield from commands(click.Context(child, info_name=name, parent=context))


# Imperatives that say what a function does. Not here: say, tell, ask for, give, bring, hold, let.
VERBS = {
    *"""
    accept add allot allow announce answer append apply archive ask attach begin bound
    branch build call cancel capture carry change check choose claim clear close commit
    compact compare compile complete compress connect continue copy count cover create cut
    decode delete derive describe divide do draw drop embed encode end enter evict exit
    explain export extend extract fill find finish fit fold forget format group guard handle
    hash import insert interrupt iterate keep learn lease leave limit link list listen load
    lock log look maintain make map mark match measure merge migrate move name note number
    open parse pass pickle point prefer prefetch prepare print prove put queue raise rank
    read rebuild recall refuse register reject release remember remove rename renew repeat
    replace reply report reserve resolve restore retire return rewrite roll run save score
    screen search see send serve set show sign skip sleep split start step stop store
    summarise supersede switch sync take test translate undo unpack update use validate
    verify wait wake warm warn work wrap write yield
    """.split()
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
