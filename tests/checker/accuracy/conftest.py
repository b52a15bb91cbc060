"""Accuracy logs written for a test, and the real ones of round v0.5."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

Writer = Callable[..., Path]


def log_bytes(
    records: Iterable[tuple[int, bytes]], *, upper: bool = True, footer: bool = True
) -> bytes:
    """An accuracy log as LoadGen writes it: records are (qsl_idx, data)."""
    lines = []
    for seq_id, (index, data) in enumerate(records):
        text = data.hex().upper() if upper else data.hex()
        lines.append(f'{{ "seq_id" : {seq_id}, "qsl_idx" : {index}, "data" : "{text}" }}')
    return ("[\n" + ",\n".join(lines) + ("\n]\n" if footer else "")).encode()


@pytest.fixture
def write_log(tmp_path: Path) -> Writer:
    """Write records (qsl_idx, data) as mlperf_log_accuracy.json below the test's folder."""

    def write(records: Iterable[tuple[int, bytes]], folder: str = "accuracy") -> Path:
        path = tmp_path / folder / "mlperf_log_accuracy.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log_bytes(records))
        return path

    return write


@pytest.fixture(scope="session")
def v05() -> Path:
    """Accuracy logs of round v0.5, unpacked once outside the repository."""
    default = Path(__file__).resolve().parents[3].parent / "shared"
    corpus = Path(os.environ.get("ASSAY_CORPUS", default))
    archive = corpus / "corpus" / "v0.5.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no corpus: {archive} is not there (ASSAY_CORPUS names its folder)")
    cache = Path(os.environ.get("ASSAY_CACHE", Path(tempfile.gettempdir()) / "assay-corpus"))
    folder = cache / "accuracy-v0.5"
    if not (folder / "complete").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                if member.isfile() and name in ("mlperf_log_accuracy.json", "accuracy.txt"):
                    tar.extract(member, folder, filter="data")
        (folder / "complete").touch()
    return folder
