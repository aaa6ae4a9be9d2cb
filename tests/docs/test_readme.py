import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", README, re.DOTALL)
CONSOLE = re.findall(r"^\$ (memdb .*)$", README, re.MULTILINE)
MAKE = re.findall(r"^\$ make ?(\w*)$", README, re.MULTILINE)
MEMDB = [sys.executable, "-m", "memdb"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the file that the first block makes."""
    folder = tmp_path_factory.mktemp("readme")
    python(PYTHON[0][0], folder)
    return folder


def python(code, folder):
    """Return the finished process of a program that ran in *folder*."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("code", "printed"), PYTHON, ids=["first screen"])
def test_every_python_block_prints_what_the_readme_says(tmp_path, code, printed):
    """A reader who pastes a block sees the lines below it."""
    ran = python(code, tmp_path)

    assert ran.stderr == ""
    assert ran.stdout == re.sub(r"^ {4}", "", printed, flags=re.MULTILINE)


@pytest.mark.parametrize("line", CONSOLE)
def test_every_command_line_of_the_first_screen_runs(folder, line):
    """The commands work on the file that the first block made."""
    ran = subprocess.run(
        [*MEMDB, *shlex.split(line)[1:]], cwd=folder, capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout != ""


def test_the_commands_of_the_first_screen_were_found():
    """The pattern above still matches the README."""
    assert len(PYTHON) == 1
    assert len(CONSOLE) == 4


@pytest.mark.parametrize("target", [target or "all" for target in MAKE])
def test_every_make_target_of_the_readme_exists(target):
    """`make` knows each word the README uses."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_readme_never_names_the_other_package():
    """The name memdb on the package index belongs to somebody else."""
    texts = [path.read_text() for path in ROOT.glob("*.md")]

    assert not [text for text in texts if re.search(r"pip install (-U )?memdb(?!-sqlite)", text)]


def test_the_first_screen_has_thirty_lines_or_so():
    """What, why, how and limits stand before the first heading of the second level."""
    first_screen = README.split("\n## ")[0]

    assert len(first_screen.splitlines()) <= 52
