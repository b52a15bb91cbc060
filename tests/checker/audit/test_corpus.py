"""Published rounds: the audit's errors there are those that the files themselves explain."""

from __future__ import annotations

import pytest

from checker.engine import Options, audit
from tests.corpus import corpus_rounds, unpacked

pytestmark = pytest.mark.corpus

KNOWN: dict[str, set[tuple[str, str]]] = {
    # TEST05's log is TEST01's, byte for byte.
    "v0.7": {
        ("R301", "open/Deci/compliance/n2-highcpu-2/resnet"),
    },
    # The accuracy log is TEST01's, byte for byte: its samples are not those of the accuracy run's seeds.
    "v3.0": {
        (
            "R203",
            "closed/cTuning/results/nvidia_orin-nvidia_original-gpu-tensorrt-v8.5.2.2-"
            "default_config/bert-99/singlestream/accuracy",
        ),
        (
            "R309",
            "closed/cTuning/compliance/nvidia_orin-nvidia_original-gpu-tensorrt-v8.5.2.2-"
            "default_config/bert-99/singlestream/TEST01/accuracy",
        ),
    },
    # The accuracy folder holds the performance log of another scenario.
    "v4.1": {
        ("R301", "closed/AMD/results/1xMI300X_2xEPYC-9374F/llama2-70b-99.9/Server/accuracy"),
    },
    # Offline ran fewer samples than its own settings ask for; SingleStream has no target duration.
    "v6.0": {
        ("R112", "open/NVIDIA/results/Jetson-Thor/llama3.1-8b-edge/SingleStream/performance/run_1"),
        ("R113", "open/NVIDIA/results/Jetson-Thor/llama3.1-8b-edge/Offline/performance/run_1"),
    },
}


@pytest.mark.parametrize("name", corpus_rounds())
def test_errors_are_explained(name: str) -> None:
    report = audit([unpacked(name)], Options(audit=True, select=("R", "X"), jobs=2))
    errors = {
        (f.rule, (f.path or "").rsplit("/", 1)[0]) for f in report.findings if f.severity == "error"
    }
    assert errors == KNOWN.get(name, set())
    assert all(f.evidence for f in report.findings if f.rule[0] == "R" and f.rule != "R202")


def test_rounds_do_not_share_logs() -> None:
    names = corpus_rounds()[-3:]
    if len(names) < 3:
        pytest.skip("needs three rounds")
    report = audit(
        [unpacked(name) for name in names],
        Options(audit=True, select=("R301", "R302", "R303", "R307"), jobs=2),
    )
    assert all(
        f.severity != "error" or "llama2-70b-99.9" in (f.path or "") for f in report.findings
    )
    assert len({path.path for path in report.results}) == len(report.results)
