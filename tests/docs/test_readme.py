"""README: its blocks print what stands below them, its recording is what its commands write."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", README, re.DOTALL)
CONSOLE = re.findall(r"```console\n(\$ memdb .*?)```", README, re.DOTALL)
MAKE = re.findall(r"^\$ make ?(\w*)$", README, re.MULTILINE)
TALK = [
    ("user", "Which plants survive in a dark hall?"),
    ("assistant", "A ZZ plant or a cast-iron plant: both need little light."),
    ("user", "I'll take the ZZ plant. Water it every three weeks, right?"),
    ("assistant", "Yes, and less in winter."),
]


@pytest.fixture
def home(tmp_path):
    """Return the home of a reader who has downloaded the export of ChatGPT."""
    nodes = {
        f"n{number}": {
            "id": f"n{number}",
            "parent": f"n{number - 1}" if number > 1 else None,
            "children": [f"n{number + 1}"] if number < len(TALK) else [],
            "message": {
                "id": f"m{number}",
                "author": {"role": role},
                "create_time": 1_740_821_400 + 60 * number,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        for number, (role, text) in enumerate(TALK, start=1)
    }
    chat = {"id": "c1", "title": "Plants", "mapping": nodes, "current_node": f"n{len(TALK)}"}
    with zipfile.ZipFile(tmp_path / "chatgpt-export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([chat]))
    return tmp_path


def run(words, home):
    """Return what a program that ran in *home* printed, of which nothing may be an error."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=home,
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout)
    return done.stdout.replace(str(home), "/home/ann")


def test_every_block_prints_what_the_readme_says(home):
    """A reader who pastes a block, or types a command, sees the lines below it."""
    shown = {code: re.sub(r"^ {4}", "", lines, flags=re.MULTILINE) for code, lines in PYTHON}
    typed = [
        re.fullmatch(r"(.*?)\n(.*)", one, re.DOTALL).groups()
        for block in CONSOLE
        for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    printed = {code: run(["-c", code], home) for code in shown}
    answered = [(line, run(["-m", *shlex.split(line)], home)) for line, _ in typed]

    assert (len(shown), len(typed)) == (1, 3)
    assert printed == shown
    assert answered == typed


@pytest.mark.slow
def test_the_recording_is_a_real_run():
    """Its commands write these words, whatever the day and the scores."""
    spec = importlib.util.spec_from_file_location("recording", ROOT / "docs" / "recording.py")
    recording = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recording)
    drawn = recording.draw(recording.record())
    kept = (ROOT / "docs" / "pictures" / "recording.svg").read_text(encoding="utf-8")

    assert words(drawn) == words(kept), (
        "run: python docs/recording.py > docs/pictures/recording.svg"
    )


def words(drawing):
    """Return the words of an SVG in their order, of numbers only that they are some."""
    return re.sub(r"[\d.]+", "0", " ".join(re.sub(r"<[^>]+>", " ", drawing).split()))


def test_every_make_target_of_the_readme_exists():
    """`make` knows each word the README uses."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert MAKE
    assert [
        one for one in MAKE if not re.search(rf"^{one or 'all'}:", makefile, re.MULTILINE)
    ] == []


def test_the_readme_never_names_the_other_package():
    """The name memdb on the package index belongs to somebody else."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")]

    assert not [text for text in texts if re.search(r"pip install (-U )?memdb(?!-sqlite)", text)]


def test_the_readme_is_short():
    """What, why, how and limits stand on one page."""
    assert len(README.splitlines()) <= 150
