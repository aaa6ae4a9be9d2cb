"""What docs/adk.md shows is true."""

import re
import subprocess
import sys
from pathlib import Path

import yaml
from google.adk.cli import service_registry
from pages import run_doctests
from with_adk.services import IS_LATEST

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "adk.md").read_text()


def test_its_program_prints_what_stands_below_it(tmp_path):
    """A reader who pastes it sees the same lines."""
    code, printed = re.search(
        r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL
    ).groups()
    ran = subprocess.run(
        [sys.executable, "-W", "error" if IS_LATEST else "default", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stderr == "" or not IS_LATEST  # packages of an older release warn of each other
    assert ran.stdout == re.sub(r"^ {4}", "", printed, flags=re.MULTILINE)


def test_its_services_yaml_registers_all_three():
    """As ADK reads it."""
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    registry = service_registry.ServiceRegistry()

    service_registry._register_services_from_yaml_config(config, registry)

    kinds = (registry._session_factories, registry._memory_factories, registry._artifact_factories)
    assert [[*kind] for kind in kinds] == [["memdb"]] * 3


def test_the_docstrings_are_true():
    """Their examples give what stands below them."""
    assert run_doctests("memdb.integrations.adk") > 0
