"""The documentation site builds without a warning and asks no other server for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the documentation site needs mkdocs (extra: dev)")
pytest.importorskip("material", reason="the documentation site needs mkdocs-material (extra: dev)")

from tools.site import ROOT, relinked


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_site_has_every_page_and_a_search_index(site: Path) -> None:
    pages = [page.stem for page in (ROOT / "docs").glob("*.md")]
    missing = [page for page in pages if not (site / page / "index.html").exists()]
    assert missing == []
    for page in ("rules", "contributing", "security", "changelog"):
        assert (site / page / "index.html").exists()
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(https?:[^\s\">]+)")
    links = re.compile(
        r"<link[^>]*rel=\"?(?:stylesheet|preconnect|preload)[^>]*href=\"?(https?:[^\s\">]+)"
    )
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text) and not links.search(text), page


def test_links_between_files_become_links_between_pages() -> None:
    text = "[a](docs/ci.md#x) [b](checker/rules/README.md) [c](LICENSE) [d](https://x.y/z)"
    assert (
        relinked(text, "README.md") == "[a](ci.md#x) [b](rules.md) c (`LICENSE`) [d](https://x.y/z)"
    )
    assert relinked("[s](../SECURITY.md) [t](waivers.md) ![p](images/p.png)", "docs/ci.md") == (
        "[s](security.md) [t](waivers.md) ![p](images/p.png)"
    )
