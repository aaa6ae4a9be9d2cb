"""What silences a rule, or hides the cause of an error, says why in the comment beside it."""

import re
import tokenize
from collections.abc import Iterator
from io import StringIO

from source_tree import FILES, ROOT, list_tests

HIDES_CAUSE = re.compile(r"\bfrom None\b")
CODES = r"[A-Z]+\d+(?:, ?[A-Z]+\d+)*"
SILENCER = re.compile(rf"(?:ruff: )?noqa(?:: {CODES})?|type: ignore(?:\[[\w, -]+\])?")
WORD = re.compile(r"[^\W\d_]{2}")


def unexplained(text: str) -> Iterator[int]:
    """Yield the lines of a source that silence a rule or hide a cause without a reason."""
    if not (SILENCER.search(text) or HIDES_CAUSE.search(text)):
        return  # what costs is to cut it into tokens
    open_at = 0
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.replace("fmt: skip", "")
            is_silent = SILENCER.search(text) is not None
            has_reason = WORD.search(SILENCER.sub("", text)) is not None
            if has_reason:
                open_at = 0
            elif is_silent:
                yield token.start[0]
        elif token.type == tokenize.NEWLINE and open_at:
            yield open_at
            open_at = 0
        elif token.type == tokenize.NAME and HIDES_CAUSE.search(token.line):
            open_at = token.start[0] if token.string == "None" else open_at


def test_each_has_a_reason() -> None:
    """`from None`, `noqa` and `type: ignore` say why beside them."""
    files = [ROOT / file for file in FILES]
    # In tests/api/typing an error that is expected is the test.
    files += [one for one in list_tests() if one.parent.name != "typing"]
    files += list_tests(folder="bench")
    found = [
        f"{file}:{line}" for file in files for line in unexplained(file.read_text(encoding="utf-8"))
    ]

    silent = "a  # noqa: B018\nb  # type: ignore[x]\nc  # noqa: B018 (it raises)\nraise A from None"
    assert [*unexplained(silent)] == [1, 2, 4]
    assert found == [], "\n".join(found)
