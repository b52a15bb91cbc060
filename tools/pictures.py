"""The README's pictures: ``python -m tools.pictures`` writes docs/images/terminal.svg and report.png.

A good tree of the tests is broken in three ways and checked. The report is drawn by Chromium, which
must be installed; its picture has 64 colours, so that both files together stay below 300 KB.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

import assay
import reports
from checker.engine import Options, check
from schemas.report import Report
from tests.trees import good_tree

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDTH, HEIGHT = 1180, 900


def broken(folder: Path) -> Report:
    """The report of a submission with a run that is too short, a low accuracy and a missing field."""
    tree = good_tree(folder / "submission", benchmark="resnet", category="edge")
    offline, single = tree.result("Offline"), tree.result("SingleStream")
    tree.set_log(single.detail, "effective_min_duration_ms", 60_000)
    text = offline.accuracy_text.read_text(encoding="utf-8")
    low = "accuracy=74.460%, good=37230, total=50000"
    offline.accuracy_text.write_text(re.sub(r"accuracy=.*", low, text), encoding="utf-8")
    tree.edit_json("closed/Acme/systems/box1.json", lambda fields: fields | {"cooling": "TBD"})
    return check(tree.root, Options(jobs=1), version=assay.__version__)


def terminal(report: Report) -> str:
    """A run in the terminal as SVG."""
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ assay check submission/", style="bold"))
    shown = reports.render(report, "terminal", colour=True)
    console.print(Text.from_ansi(shown if isinstance(shown, str) else shown.decode()))
    svg = console.export_svg(title="assay check")
    # The fonts would be loaded from another server; the reader's own monospace does as well.
    return re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)


def page(report: Report, folder: Path, browser: str) -> bytes:
    """The HTML report as a picture of few colours."""
    made = reports.render(report, "html")
    source, target = folder / "report.html", folder / "report.png"
    source.write_text(made if isinstance(made, str) else made.decode(), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=3000",
    ]
    size = f"--window-size={WIDTH},{HEIGHT}"
    command = [
        browser,
        *options,
        f"--user-data-dir={folder}/profile",
        size,
        f"--screenshot={target}",
        source.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    packed = io.BytesIO()
    with Image.open(target) as picture:
        picture.convert("RGB").quantize(64).save(packed, "png", optimize=True)
    return packed.getvalue()


def main() -> int:
    """Write both pictures. Status 2 where there is no browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed; the pictures are as they were.", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assay-pictures-") as name:
        report = broken(Path(name))
        (IMAGES / "terminal.svg").write_text(terminal(report), encoding="utf-8")
        (IMAGES / "report.png").write_bytes(page(report, Path(name), browser))
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
