"""A file in which every text tries to be more than text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdb.api.database import MemDB

ATTACKS = (
    "<script>window.hacked=1;alert(1)</script>",
    '<img src=x onerror="window.hacked=2;alert(2)">',
    "</title></textarea></script><svg onload=alert(3)>",
    "javascript:alert(4)",
    "{{constructor.constructor('alert(5)')()}} ${alert(5)} <%= alert(5) %>",
    "';}body{background:url(http://attacker.invalid/x)}/*",
    '" style="position:fixed;inset:0" onmouseover="alert(6)" x="',
    "\u202egnp.exe\u202c \u200bzero\ufeff\u2066 \U000e0041\U000e0042",
    "__proto__", "constructor", "toString", "../../etc/passwd",
    '=HYPERLINK("http://attacker.invalid")',
    "a\r\nSet-Cookie: x=1\x00\x07\x1b[31m",
    "![x](http://attacker.invalid/y.png) [z](javascript:alert(7)) http://attacker.invalid/",
    "Z" + "\u0301" * 10_000,
    "W" * 1_000_000,
)  # fmt: skip
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="alert(8)">
<script>window.parent.hacked=3;alert(9)</script><rect width="20" height="20" fill="red"/>
<image href="http://attacker.invalid/z.png"/></svg>"""


def fill_hostile(db: MemDB) -> str:
    """Put the attacks into every text column, and return the name of the session."""
    scope = db.scope("mallory")
    name = "<img src=x onerror=alert(0)>/..#?&"
    session = scope.session(name)
    for number, attack in enumerate(ATTACKS):
        short = attack[:100].replace("\x00", "").strip() or "x"
        session.append("user", attack.replace("\x00", ""), author=short, metadata={short: short})
        call = {"type": "tool_call", "name": short, "arguments": json.dumps({"a": short})}
        session.append("assistant", parts=[call])
        session.append("tool", short, author=short)
        if number < len(ATTACKS) - 2:
            scope.remember(
                f"{number} {short} is a fact", category="entities", key=f"{number} {short}"
            )
            scope.artifacts.save(f"user:{number}<b>'\".svg", SVG)
            scope.artifacts.save(f"user:{number}<i>.html", f"<script>alert(1)</script>{short}")
            scope.artifacts.save(f"user:{number}<i>.html", f"<script>alert(2)</script>{short}!")
            scope.items.put(("n<b>",), short, {"text": short})
            other = scope.session(f"s{number} {short[:60]}")
            other.append("user", short)
            other.update(title=short)
    session.update(title="</title><script>alert(10)</script>\u202etitle")
    db.jobs.run()
    return name
