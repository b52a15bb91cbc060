"""Hooks of mkdocs.yml: pages from outside docs/, and links that lead to them.

The repository's own pages keep links that work in a checkout; here they are made to work in the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "checker/rules/README.md": "rules.md",
}
"""Pages of the repository outside docs/, and their names in the site."""

_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)((?:#[^)\s]*)?)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside docs/."""
    for source, name in PAGES.items():
        files.append(
            File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8"))
        )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Make links between files of the repository links between pages of the site."""
    names = {name: source for source, name in PAGES.items()}
    name = page.file.src_uri
    return relinked(markdown, names.get(name, f"docs/{name}"))


def relinked(markdown: str, source: str) -> str:
    """The text of a repository's page with links for the site; ``source``: its path.

    A link to a page leads to its place in the site. A link to a file that the site does not have,
    such as a schema, becomes the file's path in code.
    """

    def link(found: re.Match[str]) -> str:
        target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PAGES:
            return f"]({PAGES[path]}{anchor})"
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{anchor})"
        return f"]\0{path}\0"

    text = _LINK.sub(link, markdown)
    return re.sub(r"(?<!!)\[([^\]]*)\]\0([^\0]*)\0", r"\1 (`\2`)", text)
