"""
The tests that a client publishes in its sdist, run with memdb in the place of its own classes.

A shim, a pytest plugin in the client's folder `contracts/`, puts memdb there. `deselected.txt`
beside it lists what is left out, each test under the reason for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def download(package: str, version: str, target: Path) -> Path:
    """Return the folder of a package's sdist; skips if the package index cannot be reached."""
    source = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation"]
    command = [*PIP, "download", *source, f"{package}=={version}", "--dest", str(target)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"{package} cannot be downloaded: {ran.stderr[-300:]}")
    extract(next(target.glob("*.tar.gz")), target)
    return next(path for path in target.iterdir() if path.is_dir())


def extract(source: Path, target: Path) -> None:
    """Extract an archive; Python before 3.11.4 knows no filter."""
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(source) as archive:
        archive.extractall(target, **filters)


def deselected(client: str) -> list[str]:
    """Return the names of the tests of a client that are left out."""
    lines = (HERE / f"with_{client}/contracts/deselected.txt").read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#["]


def run(folder: Path, client: str, files: tuple[str, ...], *options: str) -> dict[str, int]:
    """Run a client's tests with its shim; return how many passed, failed and so on."""
    left_out = [option for name in deselected(client) for option in ("--deselect", name)]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "-p", f"{client}_shim", *options, *files, *left_out],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{HERE}/with_{client}/contracts{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    last_line = ran.stdout.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last_line)}
