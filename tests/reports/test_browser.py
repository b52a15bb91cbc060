"""The HTML report in a real browser: it works, and nothing overflows."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import reports
from schemas.report import Finding, Report
from tests.reports import samples

ENVIRONMENT = {**os.environ, "TMPDIR": "/tmp"}
"""Chromium has a socket there, whose path must be short."""
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
    return _answer(folder, file)


def _answer(folder: Path, file: Path, *options: str) -> Any:
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1700,1000",
            "--virtual-time-budget=20000",
            *options,
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title and title.group(1), done.stderr[-2000:]
    answer = json.loads(html.unescape(title.group(1)))
    assert answer["errors"] == []
    return answer["said"]


def visit(folder: Path, page: str, probe: str, *, width: int = 1600) -> Any:
    """What ``probe``, the body of an asynchronous function, returns of the page as a file.

    ``await open("#…")`` loads the page with its policy at that address; ``win()`` and ``doc()`` are
    its window and document, ``await back()`` and ``await reload()`` what a reader does.
    """
    (folder / "report.html").write_text(page, encoding="utf-8")
    outer = (
        "<!doctype html><meta charset=utf-8><title></title><body><script>"
        "const frame = document.createElement('iframe'); const errors = [];"
        f"frame.style = 'width:{width}px;height:900px;border:0'; document.body.append(frame);"
        "const win = () => frame.contentWindow, doc = () => frame.contentDocument;"
        "const pause = (ms = 200) => new Promise((done) => setTimeout(done, ms));"
        "const loaded = (act) => new Promise((done) => { frame.onload = () => setTimeout(done, 50); act(); });"
        "const open = (hash) => loaded(() => { frame.src = 'report.html?' + Math.random() + hash; });"
        "const reload = () => loaded(() => win().location.reload());"
        "const back = async () => { win().history.back(); await pause(); };"
        "const rows = (id) => [...doc().querySelectorAll(`#${id} .list > tbody > tr`)]"
        ".filter((r) => win().getComputedStyle(r).display !== 'none');"
        "const choose = (id, name, value) => {"
        "const select = doc().querySelector(`#${id} select[name=${name}]`);"
        "select.value = value; select.dispatchEvent(new Event('change', { bubbles: true })); };"
        "addEventListener('load', async () => {"
        f"let said; try {{ said = await (async () => {{ {probe} }})(); }}"
        "catch (e) { said = String(e.stack || e); }"
        "document.title = JSON.stringify({ said, errors }); });</script>"
    )
    file = folder / "outer.html"
    file.write_text(outer, encoding="utf-8")
    return _answer(folder, file, "--allow-file-access-from-files")


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
      await open('');
      const said = [];
      const tell = () => said.push([rows('results').length, doc().querySelector('#results .shown').textContent]);
      tell();
      choose('results', 'verdict', 'invalid'); tell();
      choose('results', 'verdict', ''); choose('results', 'category', 'edge'); tell();
      choose('results', 'category', '');
      const search = doc().querySelector('#results input');
      search.value = 'llama offline';
      search.dispatchEvent(new Event('input'));
      await pause(); tell();
      choose('findings', 'severity', 'error');
      choose('findings', 'rule', 'P104');
      said.push([rows('findings').length, doc().querySelector('#findings .shown').textContent]);
      return said;
    """
    assert visit(tmp_path, page_of(samples.varied()), probe) == [
        [5, "5 results"],
        [2, "2 of 5 results"],
        [1, "1 of 5 results"],
        [1, "1 of 5 results"],
        [12, "12 of 17 findings"],
    ]


def test_filters_are_in_the_address(tmp_path: Path) -> None:
    """A link holds them; reload and back keep them; a link in the page leaves them as they are."""
    probe = """
      await open('#findings?f-severity=error&r-submitter=%C3%96kolab');
      const said = [];
      const tell = () => said.push([win().location.hash, rows('findings').length, rows('results').length]);
      tell();
      choose('findings', 'rule', 'A101'); tell();
      await reload(); tell();
      doc().querySelector('a[href^="#rule/A101"]').click(); await pause(); tell();
      said.push(doc().getElementById('rule/A101').open);
      await back(); tell();
      await back(); tell();
      doc().querySelector('#findings form').reset(); await pause(); tell();
      return said;
    """
    edge = "r-submitter=%C3%96kolab"
    both = f"?{edge}&f-severity=error&f-rule=A101"
    assert visit(tmp_path, page_of(samples.varied()), probe) == [
        [f"#findings?f-severity=error&{edge}", 13, 1],
        [f"#findings{both}", 1, 1],
        [f"#findings{both}", 1, 1],
        [f"#rule/A101{both}", 1, 1],
        True,
        [f"#findings{both}", 1, 1],
        [f"#findings?f-severity=error&{edge}", 13, 1],
        [f"#findings?{edge}", 17, 1],
    ]


def test_a_number_leads_to_what_it_counts(tmp_path: Path) -> None:
    """Every number of the overview that is a link shows as many rows as it says."""
    probe = """
      await open('');
      const wrong = []; let count = 0;
      for (const link of doc().querySelectorAll('#overview a[href*="?"]')) {
        const number = Number(link.textContent.replaceAll(',', ''));
        if (Number.isNaN(number)) continue;
        link.click(); await pause(20);
        const section = link.hash.slice(1).split('?')[0];
        const shown = doc().querySelector(`#${section} .shown`).textContent;
        if (parseInt(shown.replaceAll(',', '')) !== number) wrong.push([link.hash, number, shown]);
        count += 1;
      }
      return [wrong, count];
    """
    wrong, count = visit(tmp_path, page_of(samples.varied()), probe)
    assert wrong == [] and count > 10


def test_copy_as_csv(tmp_path: Path) -> None:
    """What is shown, in its order, quoted, and never a formula."""
    finding = Finding("S1", "s", "error", '=cmd("x"), y', "a/b.txt", 3, fix="-1+1")
    report = samples.report([], [finding, Finding("S2", "t", "note", "n")])
    probe = """
      await open('#findings?f-severity=error');
      let copied = '';
      const clipboard = { writeText: async (text) => { copied = text; } };
      Object.defineProperty(win().navigator, 'clipboard', { value: clipboard });
      doc().querySelector('#findings .copy').click();
      await pause();
      return [copied, doc().querySelector('#findings .shown').textContent];
    """
    copied, shown = visit(tmp_path, page_of(report), probe)
    assert list(csv.reader(io.StringIO(copied, newline=""))) == [
        ["severity", "rule", "name", "submitter", "concerns", "path", "message", "fix"],
        ["error", "S1", "s", "whole tree", "", "a/b.txt:3", '\'=cmd("x"), y', "'-1+1"],
    ]
    assert shown == "Copied 1 finding"


def test_sort(tmp_path: Path) -> None:
    """Of numbers the greatest comes first; the order is in the address."""
    probe = """
      await open('');
      const head = () => doc().querySelectorAll('#results .list th')[6];
      const values = () => rows('results').map((row) => row.cells[6].firstChild.textContent.trim());
      const said = [];
      for (let n = 0; n < 2; n += 1) {
        head().querySelector('button').click();
        said.push(values(), head().getAttribute('aria-sort'), win().location.hash);
      }
      await reload();
      said.push(values()[0]);
      return said;
    """
    down, first, hash, up, second, _, kept = visit(tmp_path, page_of(samples.varied()), probe)
    assert down == ["1,042,110", "107,317.8", "73,608.2", "0.399625", "none"]
    assert up == ["0.399625", "73,608.2", "107,317.8", "1,042,110", "none"]
    assert (first, hash, second) == ("descending", "#results?r-sort=-Result", "ascending")
    assert kept == "0.399625"


def test_the_head_of_a_table_stays_in_sight(tmp_path: Path) -> None:
    probe = """
      await open('');
      win().scrollTo(0, rows('results')[60].getBoundingClientRect().top);
      await pause();
      return Math.round(doc().querySelector('#results .list th').getBoundingClientRect().top);
    """
    assert visit(tmp_path, page_of(samples.whole_round(100)), probe) == 0


def test_a_link_opens_its_result(tmp_path: Path) -> None:
    probe = """
      await open('#r/closed/Example/DX-8x270/llama2-70b-99/Offline');
      const first = doc().querySelector('details.here');
      doc().querySelector('a[href="#r/open/Example/DX-8x270/own-model/Offline"]').click();
      await pause();
      const second = doc().querySelector('details.here');
      return [first.id, first.open, second.id, second.open, doc().activeElement.parentElement.id];
    """
    offline = "r/closed/Example/DX-8x270/llama2-70b-99/Offline"
    own = "r/open/Example/DX-8x270/own-model/Offline"
    assert visit(tmp_path, page_of(samples.varied()), probe) == [offline, True, own, True, own]


def test_a_large_report_shows_its_first_rows_and_unpacks_details(tmp_path: Path) -> None:
    probe = """
      await open('#r/closed/Submitter00/System-000x8_TRT/llama2-70b-99.9/Server');
      await pause(500);
      const one = doc().querySelector('details.here');
      const said = [one.open, one.textContent.includes('Folder'), rows('results').length];
      doc().querySelector('#results .more button').click();
      said.push(rows('results').length);
      return said;
    """
    assert visit(tmp_path, page_of(samples.whole_round(400)), probe) == [True, True, 100, 400]


@pytest.mark.parametrize(
    "report, visible",
    [
        (samples.varied(), [2, 13, 2]),
        (samples.report([samples.result()], []), [0, 0, 0]),
        # Rows beyond the first hundred that the screen shows.
        (samples.whole_round(400), [24, 24, 24]),
    ],
)
def test_print_shows_what_has_errors(tmp_path: Path, report: Report, visible: list[int]) -> None:
    """The rows of results and of findings and the details that are printed."""
    page = page_of(report).replace("@media print", "@media all")
    probe = """
      await open('');
      win().dispatchEvent(new Event('beforeprint'));
      const seen = [...doc().querySelectorAll('details.result')].filter((d) => d.checkVisibility());
      return [rows('results'), rows('findings'), seen].map((all) => all.filter((e) => e.checkVisibility()).length)
        .concat(seen.every((d) => d.open));
    """
    # The changed style no longer has the policy's hash.
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert visit(tmp_path, page, probe) == [*visible, True]


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
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
    )
    assert '<th scope="col"><button' in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("width", [320, 1181, 1281])
def test_nothing_overflows_at_the_seams(tmp_path: Path, width: int) -> None:
    probe = f"{OPEN_ALL} return doc.documentElement.scrollWidth;"
    assert look(tmp_path, page_of(samples.varied()), probe, width=width) <= width
