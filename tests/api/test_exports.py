"""What is API: exactly these names."""

import ast
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each

import memdb

NAMES = [
    "AlreadyExists",
    "Arbiter",
    "Archived",
    "ArchivedSpan",
    "Artifact",
    "ArtifactVersion",
    "Artifacts",
    "BranchInfo",
    "Busy",
    "CallStats",
    "Candidate",
    "Category",
    "CategoryCount",
    "ChangeMark",
    "Changes",
    "CipherMissing",
    "Claim",
    "Clock",
    "Closed",
    "Compacted",
    "Conflict",
    "ContextWindow",
    "CopyReport",
    "Corrupt",
    "DayCount",
    "DeviceStatus",
    "DeleteItem",
    "Detector",
    "DimensionMismatch",
    "DiskFull",
    "Durability",
    "Embedder",
    "Entries",
    "Entry",
    "EntryFields",
    "EntryVersion",
    "Event",
    "Expansion",
    "ExportFormat",
    "Extracted",
    "Failure",
    "File",
    "FileError",
    "FileInfo",
    "FilePart",
    "FindItem",
    "Finding",
    "FoundItem",
    "Folder",
    "FolderStats",
    "Hit",
    "Hits",
    "Hunk",
    "IOFailed",
    "Ids",
    "Image",
    "ImportReport",
    "Lease",
    "LeftOut",
    "Interrupted",
    "InvalidInput",
    "InvalidItem",
    "Item",
    "ItemOrder",
    "Items",
    "Jobs",
    "KeyMissing",
    "Kind",
    "Link",
    "MemDB",
    "MemDBError",
    "MergePolicy",
    "Message",
    "MessageFormat",
    "MessageSelectors",
    "MigrationFailed",
    "Model",
    "NewEntry",
    "NewMessage",
    "NotAMemDB",
    "NotFound",
    "OpenMode",
    "Original",
    "Other",
    "Outcome",
    "Page",
    "Part",
    "Partition",
    "Piece",
    "PortError",
    "PreviewRow",
    "ProfileBlock",
    "Proof",
    "PutItem",
    "QueueState",
    "ReadOnly",
    "RecallOptions",
    "SessionRecall",
    "Receipt",
    "RecoveredTable",
    "Recovery",
    "RefusedText",
    "Remembered",
    "Reranker",
    "Restored",
    "Retention",
    "Role",
    "Rows",
    "SchemaTooNew",
    "Scope",
    "ScopeCounts",
    "SearchBy",
    "Secret",
    "SecretAction",
    "Selectors",
    "SecretFound",
    "SecretPlace",
    "Session",
    "SessionClosed",
    "SessionHead",
    "SessionInfo",
    "SessionPlace",
    "SessionSnapshot",
    "Settings",
    "SettingsFields",
    "SettingsTooNew",
    "Source",
    "SourceItem",
    "SpaceInfo",
    "State",
    "StateValue",
    "Stats",
    "StorageError",
    "StoredSettings",
    "Summaries",
    "Summarizer",
    "Summary",
    "SummaryText",
    "SummaryTree",
    "SyncReport",
    "SyncStatus",
    "TableColumns",
    "TextDiff",
    "TextPart",
    "Thinking",
    "TokenCounter",
    "TooLarge",
    "ToolCall",
    "ToolFormat",
    "ToolResult",
    "Tools",
    "Transaction",
    "Trust",
    "Unavailable",
    "Unreadable",
    "Unsupported",
    "Upkeep",
    "Verdict",
    "VersionConflict",
    "When",
    "Why",
    "Work",
    "Worker",
    "WrongKey",
    "WrongProcess",
    "aio",
    "find_secrets",
    "open",
    "open_folder",
    "recover",
    "redact_secrets",
    "rekey",
    "restore",
]


# What `help(memdb)` shows and `import *` takes.
FIRST = ("MemDB", "Scope", "Session", "open")


def exported() -> dict[str, str]:
    """Return every public name that is loaded when it is used, with its module."""
    return {name: home for home, names in memdb._HOMES.items() for name in names.split()}


def test_the_public_names_are_pinned() -> None:
    """Adding or removing one is a decision, made here."""
    assert sorted([*exported(), "aio"]) == sorted(NAMES)
    assert memdb.__all__ == sorted(FIRST)


def test_type_checkers_see_the_same_names() -> None:
    """Each is imported under its own name, so that a checker takes it for public."""
    tree = ast.parse(Path(memdb.__file__).read_text(encoding="utf-8"))
    seen = [
        (alias.name, node.module, alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memdb")
        for alias in node.names
    ]

    assert sorted(seen) == sorted(
        [*((name, home, name) for name, home in exported().items()), ("aio", "memdb", "aio")]
    )


def test_help_is_short_and_names_every_public_name() -> None:
    """One screen lists them all; the calls that are made first follow."""
    shown = [sys.executable, "-c", "import memdb; help(memdb)"]  # nothing else is loaded there
    lines = subprocess.run(shown, capture_output=True, check=True).stdout.splitlines()

    assert len(lines) <= 1_100
    assert set(NAMES) - set(memdb.errors.__dict__) <= {
        word.strip("`(),.") for word in (memdb.__doc__ or "").replace("memdb.", "").split()
    } | {*FIRST}


@pytest.mark.parametrize("name", ["Message", "Receipt", "NotFound", "Corrupt"])
def test_help_of_a_value_or_an_error_fits_a_screen(name: str) -> None:
    """Fields stand in its signature and docstring; nothing of every object is repeated."""
    lines = pydoc.plain(pydoc.render_doc(getattr(memdb, name))).splitlines()

    assert len(lines) < 50
    assert not [line for line in lines if "__" in line]


@each("name", NAMES)
def test_each_name_is_there_and_documented(name: str) -> None:
    """It can be had from the package and says what it is."""
    found = getattr(memdb, name)

    if exported().get(name) == "memdb.models.types":
        return  # an alias of types, which has no module of its own
    assert found.__doc__
    assert getattr(found, "__module__", found.__name__).startswith("memdb.")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """Lazy names do not hide misspelt ones."""
    with pytest.raises(AttributeError, match="nonsense"):
        memdb.nonsense


def test_each_module_is_reached_from_the_package_alone() -> None:
    """`import memdb; memdb.errors` does not depend on what was loaded before."""
    names = [module.name for module in pkgutil.iter_modules(memdb.__path__)]
    names.remove("__main__")
    program = """if True:
        import sys, memdb
        for name in sys.argv[1:]:
            for loaded in [one for one in sys.modules if one.startswith("memdb.")]:
                vars(memdb).pop(loaded.split(".")[1], None)
                del sys.modules[loaded]
            print(getattr(memdb, name).__name__)
    """
    command = [sys.executable, "-c", program, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout.split()) == ("", [f"memdb.{name}" for name in names])
    assert {"aio", "errors", "testing", "fixtures", "adapters", "evaluation"} <= {*names}


def test_dir_shows_the_public_names() -> None:
    """Though they are loaded later."""
    assert set(NAMES) <= set(dir(memdb))


def test_the_version_is_a_version() -> None:
    """Three numbers."""
    assert [part.isdigit() for part in memdb.__version__.split(".")] == [True] * 3
