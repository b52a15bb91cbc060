"""The HTML report in a real browser: it works, and nothing overflows."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import reports
from schemas.report import Report
from tests.reports import samples

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"
)


def look(folder: Path, page: str, probe: str, *, width: int = 1600) -> Any:
    """What ``probe``, a JavaScript expression over ``doc`` and ``win``, says of the page.

    The page stands in a frame, because a window has a least width that is wider than a phone.
    Its policy is taken away, because it forbids what is put in here to look for errors.
    """
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    quoted = json.dumps(page).replace("<", "\\u003c")
    outer = (
        "<!doctype html><meta charset=utf-8><title></title><body><script>"
        f"const page = {quoted};"
        "const errors = []; const frame = document.createElement('iframe');"
        f"frame.style = 'width:{width}px;height:900px;border:0';"
        "frame.srcdoc = page.replace('<head>', '<head><script>"
        'addEventListener("error", (e) => parent.errors.push(e.message));'
        'addEventListener("securitypolicyviolation", (e) => parent.errors.push(e.blockedURI));'
        "<\\/script>');"
        "window.errors = errors;"
        "frame.onload = () => { const doc = frame.contentDocument, win = frame.contentWindow;"
        f"let said; try {{ said = (() => {{ {probe} }})(); }} catch (e) {{ said = String(e); }}"
        "document.title = JSON.stringify({said, errors}); };"
        "document.body.append(frame);</script>"
    )
    file = folder / "outer.html"
    file.write_text(outer, encoding="utf-8")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", f"--user-data-dir={folder / 'profile'}", "--window-size=1700,1000",
            "--virtual-time-budget=20000", "--dump-dom", file.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title and title.group(1), done.stderr[-2000:]
    answer = json.loads(html.unescape(title.group(1)))
    assert answer["errors"] == []
    return answer["said"]


def page_of(report: Report) -> str:
    page = reports.render(report, "html")
    assert isinstance(page, str)
    return page


OPEN_ALL = "for (const d of doc.querySelectorAll('details')) d.open = true;"


@pytest.mark.parametrize("width", [380, 900, 1600])
@pytest.mark.parametrize("index", [-1, 0, 4, 11, 18])
def test_nothing_overflows(tmp_path: Path, width: int, index: int) -> None:
    report = samples.varied() if index < 0 else samples.hostile(samples.HOSTILE[index])
    probe = f"{OPEN_ALL} return [win.innerWidth, doc.documentElement.scrollWidth];"
    inner, needed = look(tmp_path, page_of(report), probe, width=width)
    assert needed <= inner == width


def test_filter(tmp_path: Path) -> None:
    probe = """
      const shown = () => [...doc.querySelectorAll('#table tbody tr')].filter((r) => !r.hidden);
      const choose = (column, value) => {
        const select = doc.querySelector(`select[data-c="${column}"]`);
        select.value = value;
        select.dispatchEvent(new win.Event('change', { bubbles: true }));
        return [shown().length, doc.getElementById('shown').textContent];
      };
      const all = [doc.querySelector('.filters').hidden, shown().length];
      const invalid = choose(0, 'invalid');
      choose(0, '');
      const edge = choose(6, 'edge');
      choose(6, '');
      doc.getElementById('q').value = 'llama offline';
      doc.querySelector('form').dispatchEvent(new win.Event('change'));
      return [all, invalid, edge, shown().length];
    """
    assert look(tmp_path, page_of(samples.varied()), probe) == [
        [False, 5],
        [2, "2 of 5 results"],
        [1, "1 of 5 results"],
        1,
    ]


def test_sort(tmp_path: Path) -> None:
    probe = """
      const head = doc.querySelectorAll('#table th')[7];
      const values = () => [...doc.querySelectorAll('#table tbody tr')]
        .map((row) => row.cells[7].textContent);
      head.querySelector('button').click();
      const up = values();
      const state = head.getAttribute('aria-sort');
      head.querySelector('button').click();
      return [up, state, values(), head.getAttribute('aria-sort')];
    """
    up, state, down, back = look(tmp_path, page_of(samples.varied()), probe)
    assert up == ["0.399625", "73,608.2", "107,317.8", "1,042,110", "none"]
    assert down == ["1,042,110", "107,317.8", "73,608.2", "0.399625", "none"]
    assert (state, back) == ("ascending", "descending")


def test_a_link_opens_its_result(tmp_path: Path) -> None:
    probe = """
      doc.getElementById('r2').open = false;
      win.location.hash = '#r2';
      win.dispatchEvent(new win.Event('hashchange'));
      return doc.getElementById('r2').open;
    """
    assert look(tmp_path, page_of(samples.varied()), probe) is True


def test_without_pictures_the_words_remain(tmp_path: Path) -> None:
    probe = """return [...doc.querySelectorAll('svg')]
      .every((s) => s.getAttribute('aria-label') || s.getAttribute('aria-hidden'));"""
    assert look(tmp_path, page_of(samples.whole_round(20)), probe) is True


def test_its_own_policy_lets_it_work(tmp_path: Path) -> None:
    """Opened as a file, with its policy: the script has run, the style holds, no complaint."""
    file = tmp_path / "report.html"
    file.write_text(page_of(samples.varied()), encoding="utf-8")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom", file.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert '<th scope="col"><button' in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("width", [320, 1181, 1281])
def test_nothing_overflows_at_the_seams(tmp_path: Path, width: int) -> None:
    probe = f"{OPEN_ALL} return doc.documentElement.scrollWidth;"
    assert look(tmp_path, page_of(samples.varied()), probe, width=width) <= width
