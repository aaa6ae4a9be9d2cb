"""What the pages of docs/ show is true: their Python, their commands, in the order of the page."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memdb.cli import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# The language of a block, the file it is kept in, its text, and the indented lines that it prints.
BLOCK = re.compile(
    r'```(\w+)(?: title="([^"]+)")?\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?', re.DOTALL
)
# Pages of clients are tested with their client, where it is installed.
OF_CLIENTS = "".join(
    test.read_text(encoding="utf-8")
    for test in (ROOT / "tests" / "integrations").glob("with_*/**/*.py")
)
PAGES = [
    page
    for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")])
    if re.search(r"```(python|console)\n", page.read_text(encoding="utf-8"))
    if page.name not in OF_CLIENTS
]


def test_pages_with_blocks_were_found():
    """The pattern still matches."""
    assert {"start.md", "tutorial.md", "parts.md", "fixtures.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_read_from_its_top_does_what_it_shows(page, tmp_path, monkeypatch, capsys):
    """Files are made, Python goes on from block to block, commands run between."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for kind, title, code, printed in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (tmp_path / title).write_text(code, encoding="utf-8")
        elif kind == "python":
            exec(compile(code, page.name, "exec"), names)
            shown = capsys.readouterr().out
            assert shown == re.sub(r"^ {4}", "", printed, flags=re.MULTILINE), code
        elif kind == "console":
            for line in re.findall(r"^\$ (.+)$", code, re.MULTILINE):
                run(line, tmp_path)


def run(line, folder):
    """Run a command of a page; it must succeed and say something."""
    words = shlex.split(line)
    if words[0] == "memdb":  # 0.3 s less than in a process of its own
        done = CliRunner().invoke(cli, words[1:], prog_name="memdb")
        assert (done.exit_code, bool(done.output)) == (0, True), (line, done.output)
        return
    program = words[1:] if words[0] == "python" else ["-m", *words]
    ran = subprocess.run(
        [sys.executable, *program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, (line, ran.stderr)
    assert ran.stdout + ran.stderr, line
