"""Against a real vLLM on the CPU: `make test-vllm`; elsewhere skipped."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.backends.openai import OpenAI
from runner.benchmarks import get_benchmark
from runner.benchmarks.base import Benchmark
from runner.run import Job, measure
from runner.settings import RunSettings
from tests.runner.openai_server import first_in_line
from tests.vllm.tiny import LONGEST, make_data, make_model

VLLM = os.environ.get("ASSAY_VLLM", "")
pytestmark = pytest.mark.skipif(not VLLM, reason="needs a real vLLM: make test-vllm")
NAME = "tiny-llama-3.1-8b"
START_S = 420  # on two busy cores it takes 200
base = get_benchmark("llama3.1-8b")
assert base.generation is not None
TINY: Benchmark = replace(
    base,
    performance_sample_count=40,
    generation=replace(base.generation, max_tokens=24, end_tokens=(2,)),
)
"""llama3.1-8b with answers that a random model on two cores gives in a second."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("vllm")
    return make_data(make_model(place / "model"), place / "data")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    running = os.environ.get("ASSAY_VLLM_URL")
    if running:
        yield running
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder.parent / "vllm.log").open("wb")
    process = subprocess.Popen(
        [
            VLLM,
            "serve",
            str(folder.parent / "model"),
            "--load-format",
            "dummy",
            "--enforce-eager",
            "--dtype",
            "float32",
            "--max-model-len",
            str(LONGEST),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--served-model-name",
            NAME,
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=folder.parent,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
        },
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_S
        while time.monotonic() < end and process.poll() is None:
            try:
                urllib.request.urlopen(f"{address}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(1)
        else:
            pytest.fail(f"vLLM did not start: {(folder.parent / 'vllm.log').read_text()[-2000:]}")
        yield address
    finally:
        process.terminate()
        process.wait(30)
        log.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("scenario", "mode"),
    [("Offline", "accuracy"), ("Offline", "performance"), ("Server", "performance"),
     ("Interactive", "performance"), ("SingleStream", "performance")],
)  # fmt: skip
def test_runs(scenario: str, mode: str, url: str, folder: Path, tmp_path: Path) -> None:
    """Token ids from the server, equal to its usage in every answer; no token error in LoadGen's log."""
    interactive = scenario == "Interactive"
    scenario = "Server" if interactive else scenario
    limits: dict[str, float] = {}
    least = 480 if scenario == "Server" else 40  # early stopping needs 459 without a miss
    if scenario == "Server":
        limits = {"ttft_ms": 30_000.0, "tpot_ms": 5000.0, "target_qps": 20.0}
    elif mode == "performance" and scenario == "Offline":
        limits = {"target_qps": 200.0}  # a warm-up on busy cores may promise too little
    settings = RunSettings(
        "llama3_1-8b-interactive" if interactive else "llama3_1-8b",
        scenario,
        mode,  # type: ignore[arg-type]
        min_duration_ms=2000,
        min_query_count=least,
        token_latencies=True,
        equal_issue=True,
        interactive=interactive,
        **limits,  # type: ignore[arg-type]
    )
    job = Job(
        "tests.vllm.test_vllm:TINY",
        settings,
        backend="openai",
        backend_options={"url": url},
        data=str(folder),
        workers=16,
        early_stop=False,
    )
    # vLLM's processes poll for work: without priority a first token may wait for them all along.
    with first_in_line():
        found = measure(job, tmp_path / "run")
    assert not [reason for reason in found.reasons if reason.startswith("LoadGen error")]
    assert "tokens counted by the server" in found.framework
    if mode == "accuracy":
        score = TINY.score(tmp_path / "run" / "mlperf_log_accuracy.json", TINY.make_dataset(folder))
        assert "'gen_num': 40" in score.line
        return
    assert found.valid, found.reasons
    if scenario == "Server":
        assert found.detail["result_first_token_min_latency_ns"] > 0
        assert found.detail["result_time_to_output_token_min"] > 0
    if scenario == "SingleStream" and found.disturbed < 0.2:
        # Token by token, not all at the end.
        latency = found.detail["result_50.00_percentile_latency_ns"]
        assert found.detail["result_first_token_50.00_percentile_latency_ns"] < latency / 3
        assert found.detail["result_time_per_output_token_50.00_percentile_ns"] > latency / 48
    assert found.metric


def test_the_model_is_found(url: str, folder: Path) -> None:
    backend = OpenAI(url=url)
    backend.load(TINY, None, TINY.make_dataset(folder))
    assert f"model {NAME}" in backend.framework
    assert backend.warnings == []  # top_k and min_tokens are known to vLLM
    assert backend._started[0] is not None  # its process says when it began
