"""Accuracy logs written for a test, and the real ones of round v0.5."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.corpus import corpus_rounds, unpacked

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
    """The submissions of round v0.5."""
    if "v0.5" not in corpus_rounds():
        pytest.skip("no real submissions: set ASSAY_CORPUS")
    return unpacked("v0.5")
