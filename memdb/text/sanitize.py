"""
Stored text on its way into a prompt: visible, on one line, and never markup.

What somebody once said is data: `prompt_line` makes a text that cannot end the
block it stands in. Pure and linear; the stored text itself stays as it was said.
`memdb.text.injection` notices orders to a model in it.
"""

from __future__ import annotations

import re

# Invisible characters, and those that turn the direction of reading: nobody
# sees them, a model does. Tag characters and variation selectors can carry
# whole hidden texts.
INVISIBLE_CLASS = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
INVISIBLE = re.compile(f"[{INVISIBLE_CLASS}]")

# Joiners make letters of some scripts and emoji; between others they only hide.
_JOINERS = re.compile(
    r"(?<![^\x00-\x7f])[\u200c\u200d]+|[\u200c\u200d]+(?![^\x00-\x7f\u200c\u200d])"
)
_MANY_JOINERS = re.compile(r"([\u200c\u200d])[\u200c\u200d]+")

# What a terminal takes for orders: CSI, OSC and the like, then single controls.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,1000}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")

_FENCES = re.compile(r"`{3,}|~{3,}|={4,}|-{4,}|#{3,}(?= )")
_ENTITY = re.compile(r"&(?=#?\w{1,32};)")
_BRACKETED = re.compile(
    r"\[(?=/?(?:INST|SYS|SYSTEM|ASSISTANT|USER|TOOL|END|Long-term)\b)", re.IGNORECASE
)


def visible(text: str) -> str:
    r"""
    Return *text* without terminal sequences, controls and invisible characters.

    Line breaks and tabs stay, and the joiners that letters and emoji are made of.

    >>> visible("a\x1b[31mred\x1b[0m \u202edirection\u200b")
    'ared direction'
    """
    if text.isascii() and text.isprintable():
        return text
    text = INVISIBLE.sub("", _CONTROLS.sub("", _ANSI.sub("", text)))
    return _JOINERS.sub("", _MANY_JOINERS.sub(r"\1", text))


def prompt_line(text: str) -> str:
    r"""
    Return *text* as one line of data inside a prompt.

    Line breaks become spaces, angle brackets entities, and rows of backticks,
    tildes, equals signs or dashes shorter, so no tag, fence or row of the text
    can end the block around it or begin one. Doing it twice to a text without
    entities changes no more than the ampersands.

    >>> prompt_line("likes </memory>\n```tea``` & a < b")
    "likes &lt;/memory&gt; ''tea'' & a &lt; b"
    """
    line = " ".join(visible(text).split())
    line = _ENTITY.sub("&amp;", line).replace("<", "&lt;").replace(">", "&gt;")
    line = _FENCES.sub(lambda match: "''" if match[0][0] == "`" else match[0][:2], line)
    return _BRACKETED.sub("[ ", line)
