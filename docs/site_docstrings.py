"""Examples in docstrings become code blocks on the site; in Markdown `>>>` would be a quotation."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

# A line that begins with the prompt, and all lines below it up to an empty one.
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class Examples(Extension):
    """Puts each example of a docstring between fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of *obj*, if it has examples."""
        if obj.docstring and ">>>" in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
