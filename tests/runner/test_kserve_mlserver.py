"""A server that others wrote: MLServer with the digits model, over HTTP and gRPC.

It skips unless MLServer is there: its `mlserver` command on PATH, or named by ASSAY_MLSERVER (it
may live in an environment of its own, with onnxruntime beside it).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import SCENARIOS, BackendError, InferenceError, Job, RunSettings, measure
from runner.backends import preflight
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import INPUT
from runner.logs import ACCURACY
from runner.settings import Mode

HERE = Path(__file__).resolve().parent
COMMAND = os.environ.get("ASSAY_MLSERVER") or shutil.which("mlserver")
pytestmark = pytest.mark.skipif(
    COMMAND is None, reason="MLServer is not installed (mlserver on PATH, or ASSAY_MLSERVER)"
)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    ports = {"http": _free_port(), "grpc": _free_port()}
    settings = {
        "host": "127.0.0.1", "http_port": ports["http"], "grpc_port": ports["grpc"],
        "parallel_workers": 0, "metrics_endpoint": None, "debug": False, "use_structured_logging": False,
    }  # fmt: skip
    model = {
        "name": "digits", "implementation": "mlserver_digits.Onnx",
        "parameters": {"uri": str(DIGITS.models["fp32"])},
        "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps(model))
    shutil.copy(HERE / "mlserver_digits.py", folder)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(COMMAND), "start", str(folder)], stdout=log, stderr=log, cwd=folder
        )
    urls = {kind: f"{kind}://127.0.0.1:{port}" for kind, port in ports.items()}
    end = time.monotonic() + 60
    while True:
        try:
            preflight("kserve", {"url": list(urls.values()), "timeout": 5.0})
            return process, urls
        except BackendError:
            if time.monotonic() > end or process.poll() is not None:
                process.kill()
                raise
            time.sleep(0.3)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    pytest.importorskip("tritonclient", reason='the extra "kserve" is not installed')
    process, found = _start(tmp_path_factory.mktemp("mlserver"))
    yield found
    process.kill()
    process.wait()


def _job(scenario: str, mode: Mode, url: str, **options: Any) -> Job:
    settings = RunSettings(
        "digits",
        scenario,
        mode,
        min_duration_ms=700,
        load=0.2,
        target_latency_ms=1000.0 if scenario == "Server" else None,
    )
    return Job(
        "digits",
        settings=settings,
        backend="kserve",
        workers=4,
        warm_up_s=0.1,
        early_stop=False,
        batch_size=1 if scenario == "Server" else 8,
        backend_options={"url": url, **options},
    )


@pytest.mark.parametrize("kind", ["http", "grpc"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario(scenario: str, kind: str, urls: dict[str, str], tmp_path: Path) -> None:
    result = measure(_job(scenario, "performance", urls[kind]), tmp_path / "run")
    assert not [r for r in result.reasons if "LoadGen error" in r]
    assert "Network SUT: mlserver" in result.detail["sut_name"]
    assert "1 server mlserver" in result.framework and result.metric


@pytest.mark.parametrize(("kind", "scenario"), [("http", "Offline"), ("grpc", "SingleStream")])
def test_accuracy_is_the_local_backends(
    kind: str, scenario: str, urls: dict[str, str], tmp_path: Path
) -> None:
    def answers(job: Job, name: str) -> dict[int, str]:
        folder = measure(job, tmp_path / name).folder
        return {e["qsl_idx"]: e["data"] for e in json.loads((folder / ACCURACY).read_text())}

    local = Job(
        "digits",
        settings=RunSettings("digits", scenario, "accuracy"),
        warm_up_s=0.05,
        model=str(DIGITS.models["fp32"]),
    )
    there = answers(_job(scenario, "accuracy", urls[kind]), "there")
    assert there == answers(local, "here") and len(there) == 500


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_the_server_is_killed_in_the_middle(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    process, urls = _start(folder)
    settings = RunSettings(
        "digits", "Server", min_duration_ms=8000, target_latency_ms=1000.0, load=0.2
    )
    job = Job(
        "digits",
        settings=settings,
        backend="kserve",
        workers=4,
        warm_up_s=0.1,
        early_stop=False,
        batch_size=1,
        backend_options={"url": urls[kind], "timeout": 5.0},
    )

    class Killer:
        def on_event(self, event: Any) -> None:
            if event.phase == "running" and process.poll() is None:
                threading.Thread(target=process.send_signal, args=(signal.SIGKILL,)).start()

    began = time.monotonic()
    with pytest.raises(InferenceError, match=r"lost query \d+"):
        measure(job, tmp_path / "run", Killer())
    assert time.monotonic() - began < 25
    assert not (tmp_path / "run").exists()
    assert "lost query" in (tmp_path / "run.failed" / "REASON.txt").read_text()
    process.wait()
