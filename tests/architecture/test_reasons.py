"""What silences a rule, or hides the cause of an error, says why in the comment beside it."""

import re
import tokenize
from collections.abc import Iterator
from io import StringIO

from source_tree import FILES, text_of

HIDES_CAUSE = re.compile(r"\bfrom None\b")
REASON = re.compile(r"#.*[^\W\d_]{2}")


def unexplained(text: str) -> Iterator[int]:
    """Yield the lines of a source that hide a cause without a comment."""
    for token in tokenize.generate_tokens(StringIO(text).readline):
        is_none = token.type == tokenize.NAME and token.string == "None"
        if is_none and HIDES_CAUSE.search(token.line) and not REASON.search(token.line):
            yield token.start[0]


def test_each_has_a_reason() -> None:
    """`from None` needs one: `from error` shows the cause."""
    found = [f"{file}:{line}" for file in FILES for line in unexplained(text_of(file))]

    assert list(unexplained("raise KeyError from None")) == [1]
    assert found == []
