"""
The recording at the top of README, made of a real run of the commands in it.

    python docs/recording.py > docs/pictures/recording.svg

Each command runs in a process of its own, on a terminal of 80 columns and a new file. A test runs
them again and compares the words.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from html import escape
from tempfile import TemporaryDirectory

COLUMNS, ROWS = 80, 40
LINE, WIDTH, MARGIN = 18, 8.4, 14
TYPED, SHOWN = 1.1, 0.9  # seconds before the lines of an answer, and before the next command
COMMANDS = (
    'memdb remember "I am allergic to peanuts."',
    'memdb remember "My train leaves at 9:15."',
    'memdb remember "My train leaves at 9:45, not 9:15."',
    'memdb recall "when does my train leave?" --limit 1 --explain',
    'memdb recall "what must I not eat?"',
    'memdb recall "what is the door code?"',
    "memdb forget --person peanuts --prove --yes",
    "memdb recall peanuts",
)
_STYLE = re.compile(r"\x1b\[([\d;]*)m")


def record() -> list[tuple[str, list[str]]]:
    """Return each command with the lines that a terminal shows below it."""
    with TemporaryDirectory() as folder:
        return [(command, _run(command, folder)) for command in COMMANDS]


def draw(recording: list[tuple[str, list[str]]]) -> str:
    """Return the SVG of a *recording*: its lines appear one after the other, and stay."""
    drawn: list[str] = []
    seconds = 0.0
    for command, answer in recording:
        drawn.append(_line(len(drawn), seconds, f'<tspan class="p">$</tspan> {escape(command)}'))
        seconds += TYPED
        drawn += [_line(len(drawn) + n, seconds, _styled(one)) for n, one in enumerate(answer)]
        seconds += SHOWN
    width = round(COLUMNS * WIDTH) + 2 * MARGIN
    height = len(drawn) * LINE + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="ui-monospace, Menlo, Consolas, '
            f'\'DejaVu Sans Mono\', monospace" font-size="14" fill="#d8dee9">',
            "<title>memdb remembers, corrects, answers with its reason, and forgets</title>",
            "<style>text{white-space:pre;animation:a .2s backwards}.p{fill:#88c0d0}.d{opacity:.6}"
            "@keyframes a{from{opacity:0}}"
            "@media(prefers-reduced-motion:reduce){text{animation:none}}</style>",
            '<rect width="100%" height="100%" rx="8" fill="#20242c"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _run(command: str, folder: str) -> list[str]:
    """Return the lines that *command* writes to a terminal."""
    environment = {
        **os.environ,
        "MEMDB_FILE": "agent.db",
        "MEMDB_USER": "ann",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
    }
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    words = [sys.executable, "-m", *shlex.split(command)]
    with subprocess.Popen(  # noqa: S603 - the commands above, without a shell
        words, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        written = b"".join(_chunks(master))
    os.close(master)
    if process.returncode:
        raise RuntimeError(f"{command}: exit code {process.returncode}")
    return written.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def _chunks(master: int) -> list[bytes]:
    """Return what is read from a terminal until its program ends."""
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65_536)
        except OSError:  # Linux: the other side is closed
            return chunks
        if not chunk:
            return chunks
        chunks.append(chunk)


def _line(number: int, seconds: float, content: str) -> str:
    place = MARGIN + (number + 1) * LINE - 4
    return f'<text x="{MARGIN}" y="{place}" style="animation-delay:{seconds:.1f}s">{content}</text>'


def _styled(line: str) -> str:
    """Return a line with tspans in place of the codes for bold and dim text."""
    parts = _STYLE.split(line)
    drawn = escape(parts[0], quote=False)
    for code, text in zip(parts[1::2], parts[2::2], strict=True):
        words = escape(text, quote=False)
        if code == "1":
            words = f'<tspan font-weight="bold">{words}</tspan>'
        elif code == "2":
            words = f'<tspan class="d">{words}</tspan>'
        drawn += words
    return drawn


if __name__ == "__main__":
    sys.stdout.write(draw(record()))
