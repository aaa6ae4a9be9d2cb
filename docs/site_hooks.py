"""
What `make docs` does beyond rendering: pages of the project's top folder, links to files, llms.txt.

The documents are read on the repository's page as well, so they link to files
beside `docs/` and to folders. On the site such a file is a page or a copy.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import memdb

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "NOTICE": "NOTICE.md",
}
# Page of the reference -> its title, and the modules whose public names stand on it; those of
# modules that no page names stand with the values.
REFERENCE = {
    "file": (
        "The file",
        ["memdb.api.database", "memdb.rescue.recovery", "memdb.api.worker", "memdb.models.reports"],
    ),
    "scope": ("A scope and what recall finds", ["memdb.api.scope", "memdb.text.secrets"]),
    "session": (
        "A session",
        ["memdb.api.session", "memdb.api.tools", "memdb.api._container"],
    ),
    "collections": (
        "Entries, artifacts, items, state, summaries",
        ["memdb.api.collections", "memdb.api.items"],
    ),
    "values": (
        "What calls take and return",
        [
            "memdb.models.messages",
            "memdb.models.entries",
            "memdb.models.items",
            "memdb.models.summaries",
            "memdb.models.types",
        ],
    ),
    "settings": ("Settings", ["memdb.models.settings"]),
    "own-parts": (
        "Models, embedders and counters of your own",
        ["memdb.models.protocols", "memdb.models.observation"],
    ),
    "errors": ("Errors", ["memdb.errors"]),
}
# Modules that are imported by their own names.
MODULES = {
    "aio": ("Asyncio", ["memdb.aio"]),
    "testing": ("Tests and fixtures", ["memdb.testing", "memdb.fixtures"]),
}
FOREIGN = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="((?:https?:)?//[^"]+)"')
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation names it."""
    project = config.nav[-1]["Project"]
    config.nav[-1]["Project"] = [_expand(entry) for entry in project]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, and each file that a page links to outside of docs/."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "NOTICE":
            text = f"# Notice\n\n```text\n{text}```\n"
        files.append(File.generated(config, target, content=_from_docs(text)))
    known = {module for _, modules in REFERENCE.values() for module in modules}
    others = [module for module in memdb._HOMES if module not in known]
    for name, (title, modules) in (REFERENCE | MODULES).items():
        listed = [*modules, *others] if name == "values" else modules
        names = [one for module in listed for one in _public(module)]
        text = "\n\n".join([f"# {title}", *(f"::: {name}" for name in names)])
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for page in list(files.documentation_pages()):
        for link, _ in LINK.findall(page.content_string):
            target = _outside(page.src_uri, link)
            if target in PAGES or target is None or not (ROOT / target).is_file():
                continue
            if not files.get_file_from_path(f"files/{target}"):
                copy = File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target))
                files.append(copy)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the page or the copy on the site."""

    def rewrite(match: re.Match[str]) -> str:
        target = _outside(page.file.src_uri, match[1])
        if target is None:
            return match[0]
        place = PAGES.get(target, f"files/{target}")
        relative = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        return f"]({relative}{match[2] or ''})"

    return LINK.sub(rewrite, markdown)


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
    """Keep the order of the pages for llms.txt."""
    config.extra["order"] = [page.file.src_uri for page in nav.pages]
    return nav


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load something from elsewhere."""
    if found := FOREIGN.search(output):
        raise PluginError(f"{page.file.src_uri} loads {found[1]}")
    return output


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write llms.txt, the list of the pages, and each page's Markdown beside its HTML."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    site = Path(config.site_dir)
    for name in config.extra["order"]:
        source = ROOT / next((a for a, b in PAGES.items() if b == name), f"docs/{name}")
        if not source.exists():  # the reference: its text is in the docstrings
            continue
        text = source.read_text(encoding="utf-8")
        target = site / "markdown" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        lines.append(f"- [{_title(text, name)}](markdown/{name}): {_summary(text)}")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _expand(entry: Any) -> Any:
    """Return a title with the pages of its folder, its README first; other entries as they are."""
    if isinstance(entry, str):
        return entry
    ((title, folder),) = entry.items()
    pages = sorted(
        (ROOT / "docs" / folder).glob("*.md"), key=lambda page: (page.stem != "README", page)
    )
    return {title: [f"{folder}{page.name}" for page in pages]}


def _public(module: str) -> list[str]:
    """Return the public names of a module, in alphabetical order; the module where it has none."""
    names = memdb._HOMES.get(module, "").split()
    return [f"{module}.{name}" for name in sorted(names, key=str.lower)] or [module]


def _from_docs(text: str) -> str:
    """Return a text of the top folder with its links as they are from docs/."""

    def rewrite(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        inside = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
        return f"]({inside}{anchor})"

    return LINK.sub(rewrite, text)


def _outside(page: str, link: str) -> str | None:
    """Return the path from the top folder that *link* leads to; None inside docs/."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if target == "docs" or target.startswith("docs/") else target


def _title(text: str, name: str) -> str:
    """Return the first heading of a page, else its *name*."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1] if heading else name


def _summary(text: str) -> str:
    """Return the first sentence below the heading of a page."""
    body = [
        part
        for part in re.split(r"\n\s*\n", text)
        if re.match(r"[\w`*\[]", part) and part[:3] != "```"
    ]
    first = " ".join(body[0].split()) if body else ""
    return re.split(r"[.:] ", first)[0].rstrip(".:")
