"""What fuzzing starts from: the files of good submissions, made here, one kind for each parser."""

from __future__ import annotations

import tarfile
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from schemas.report import encode
from tests.fuzz.made import FORMS
from tests.trees import GoodTree, good_tree

TREES: tuple[dict[str, Any], ...] = (
    {"round": "demo", "benchmark": "digits", "category": "datacenter"},
    {"round": "v6.0", "benchmark": "llama2-70b-99", "category": "datacenter"},
    {"round": "v6.0", "benchmark": "pointpainting", "category": "edge", "power": True},
    {"round": "v0.5", "benchmark": "resnet"},
    {"round": "v0.7", "benchmark": "3d-unet-99", "text": True},
    {"round": "v5.0", "benchmark": "stable-diffusion-xl", "category": "edge"},
)

_LONGEST = 20_000
_WAIVER = b"""[[waiver]]
rule = "P104"
path = "closed/Acme/**"
reason = "agreed"
owner = "Ada"
expires = 2027-01-31
"""
_CONFIG = b"""settings:
  load_pattern: {type: poisson, target_qps: 10.5}
  seeds: {sample: 1, schedule: 2}
metrics:
  - name: ttft
    p99: 1.5
--
{"results": {"qps": 1.0, "latency": [1, 2]}}
--
{"accuracy": {"exact": 0.5}}
"""


def trees(folder: Path) -> list[GoodTree]:
    """The good trees, built below a folder."""
    made = []
    for number, kind in enumerate(TREES):
        made.append(good_tree(folder / str(number), **kind))
    return made


def parser_of(path: str) -> str | None:
    """Which parser reads a file of a tree, by its path."""
    name = path.rsplit("/", 1)[-1]
    if name == "mlperf_log_detail.txt":
        return "detail"
    if name == "mlperf_log_summary.txt":
        return "summary"
    if name == "mlperf_log_accuracy.json":
        return "accuracy_log"
    if name == "accuracy.txt":
        return "accuracy_txt"
    if name.startswith("verify") or name.endswith("-verify-result.txt"):
        return "verify"
    if name == "user.conf":
        return "user_conf"
    if name.endswith(".json"):
        return "documents"
    return "reading" if name.endswith((".md", ".txt")) else None


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Inputs to start from, by parser."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for tree in trees(folder / "trees"):
        for path in tree.files():
            content = (tree.root / path).read_bytes()[:_LONGEST]
            parser = parser_of(path)
            if parser is not None and content not in found[parser]:
                found[parser].append(content)
        found["report"].append(encode(tree.check())[: 5 * _LONGEST])
        found["power"].extend(_power(tree))
    found["waivers"] = [_WAIVER]
    found["endpoints"] = [_CONFIG]
    found["tar"], found["zip"] = _archives(folder)
    for name, forms in FORMS.items():
        found[name].extend(forms)
    return found


def _power(tree: GoodTree) -> list[bytes]:
    """spl.txt, client.json, server.json and the analyzer's log of a power run, as one input."""
    names = ("spl.txt", "client.json", "server.json", "ptd_logs.txt")
    places = {p.rsplit("/", 1)[-1]: tree.root / p for p in tree.files() if "/ranging/" not in p}
    if "spl.txt" not in places:
        return []
    return [b"\n--\n".join(places[n].read_bytes()[:_LONGEST] for n in names if n in places)]


def _archives(folder: Path) -> tuple[list[bytes], list[bytes]]:
    import io

    tars, zips = [], []
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w", format=format) as tar:
            for name in ("closed/a.txt", "closed/" + "long" * (30 if format else 20) + "/b.txt"):
                member = tarfile.TarInfo(name)
                member.size = 3
                tar.addfile(member, io.BytesIO(b"abc"))
            link = tarfile.TarInfo("closed/link")
            link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
            tar.addfile(link)
        tars.append(sink.getvalue()[:6144])
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", method) as packed:
            packed.writestr("closed/a.txt", "abc")
            packed.writestr("closed/b.txt", "abc" * 50)
        zips.append(sink.getvalue())
    return tars, zips
