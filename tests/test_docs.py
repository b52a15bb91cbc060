"""Generated pages are up to date; the README names the two commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.generate_docs import PAGES

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("path", sorted(PAGES))
def test_generated_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "run: make docs"


def test_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_links_in_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    missing = []
    for page in pages:
        targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        missing += [f"{page.name}: {t}" for t in targets if not (page.parent / t).exists()]
    assert missing == []
