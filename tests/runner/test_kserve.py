"""A system behind a network: the same answers, many at once, and no lost query goes unseen."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.cli import main
from runner import (
    SCENARIOS,
    BackendError,
    InferenceError,
    Job,
    Measurement,
    RunSettings,
    measure,
)
from runner.backends import make_backend, preflight
from runner.backends.kserve import KServe, is_remote, network_fields
from runner.backends.kserve_client import Balancer, parse_url
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import INPUT, Digits
from runner.errors import LostQuery
from runner.gpu import UNKNOWN
from runner.logs import ACCURACY
from runner.settings import Mode
from runner.system import describe_system
from schemas import load_round

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"http": [], "grpc": ["--grpc"], "json": ["--json-only"]}
Serve = Callable[..., str]


class Servers:
    """Test servers as processes of their own; ended with the test."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __call__(self, *arguments: str) -> str:
        if "--grpc" in arguments:
            pytest.importorskip("tritonclient", reason='the extra "kserve" is not installed')
        command = [sys.executable, "-m", "tests.runner.oip_server"]
        command += ["--model", str(DIGITS.models["fp32"]), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        scheme = "grpc" if "--grpc" in arguments else "http"
        url = f"{scheme}://127.0.0.1:{int(process.stdout.readline())}"
        self.processes[url] = process
        return url

    def kill(self, url: str) -> None:
        process = self.processes.pop(url)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def serve() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    for url in list(servers.processes):
        servers.kill(url)


@pytest.fixture(scope="module")
def healthy() -> Iterator[str]:
    """One HTTP server for all tests that leave it as it is."""
    servers = Servers()
    url = servers()
    yield url
    servers.kill(url)


def _job(scenario: str, mode: Mode, *urls: str, workers: int = 4, **options: Any) -> Job:
    settings = RunSettings(
        "digits",
        scenario,
        mode,
        min_duration_ms=400,
        load=0.2,
        target_latency_ms=1000.0 if scenario == "Server" else None,
    )
    return Job(
        "digits",
        settings=settings,
        backend="kserve",
        workers=workers,
        warm_up_s=0.05,
        early_stop=False,
        batch_size={"Server": 1, "Offline": 2}.get(scenario),
        backend_options={"url": list(urls), **options},
    )


def _failing_in_the_run(scenario: str, url: str, **options: Any) -> Job:
    """A job for a server that fails after 50 requests: more than precede the run, fewer than are in it.

    However fast the machine is: a warm-up that lasts any time at all may ask for more.
    """
    job = _job(scenario, "performance", url, **options)
    more = {"target_qps": 600.0} if scenario in ("Server", "Offline") else {}
    settings = replace(job.settings, min_query_count=200, **more)
    return replace(job, warm_up_s=0.0, settings=settings)


def _answers(result: Measurement) -> Mapping[int, str]:
    entries = json.loads((result.folder / ACCURACY).read_text())
    return {entry["qsl_idx"]: entry["data"] for entry in entries}


def _backend(*urls: str, **options: Any) -> KServe:
    backend = KServe(url=list(urls), **options)
    backend.load(DIGITS, None, Digits())
    return backend


def _feed(count: int) -> dict[str, Any]:
    return Digits().load(list(range(count)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario(scenario: str, healthy: str, tmp_path: Path) -> None:
    """LoadGen ends without an error, and knows the system by the name that the rules want."""
    result = measure(_job(scenario, "performance", healthy), tmp_path / "run")
    assert not [r for r in result.reasons if "LoadGen error" in r]
    assert result.detail["sut_name"] == "Network SUT: test-server 1.0, model digits"
    assert result.detail["get_sut_name_duration_ns"] > 10_000
    assert result.samples > 0 and result.metric
    assert "KServe v2 over HTTP, binary tensors, 1 server test-server 1.0" in result.framework
    of_the_servers = [text for text in result.warnings if healthy in text]
    assert of_the_servers == []  # a short run on a busy machine has others


@pytest.fixture(scope="module")
def local_answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, str]:
    settings = RunSettings("digits", "Offline", "accuracy", min_duration_ms=400)
    job = Job(
        "digits",
        settings=settings,
        warm_up_s=0.05,
        model=str(DIGITS.models["fp32"]),
        backend_options={"threads": 1, "spinning": False},
    )
    return _answers(measure(job, tmp_path_factory.mktemp("local") / "run"))


@pytest.mark.parametrize(
    ("kind", "scenario"), [("http", "Server"), ("grpc", "Offline"), ("json", "MultiStream")]
)
def test_accuracy_is_the_local_backends(
    kind: str, scenario: str, serve: Servers, local_answers: Mapping[int, str], tmp_path: Path
) -> None:
    url = serve(*KINDS[kind])
    result = measure(_job(scenario, "accuracy", url), tmp_path / "run")
    assert result.valid and _answers(result) == local_answers
    assert ("JSON tensors" in result.framework) == (kind == "json")


@pytest.mark.parametrize("scenario", ["SingleStream", "Server", "Offline"])
def test_the_server_is_killed_in_the_middle(scenario: str, serve: Servers, tmp_path: Path) -> None:
    """A clean failure that names the query, soon; nothing stands where a result would."""
    url = serve("--die-after", "50", *(["--grpc"] if scenario == "Offline" else []))
    began = time.monotonic()
    with pytest.raises(InferenceError, match=r"lost query \d+.*, sample \d+.*no answer from"):
        measure(_failing_in_the_run(scenario, url), tmp_path / "run")
    assert time.monotonic() - began < 20
    (left,) = tmp_path.iterdir()
    assert left.name == "run.failed"
    assert "lost query" in (left / "REASON.txt").read_text()
    assert not (left / "mlperf_log_summary.txt").exists()


def test_a_server_that_hangs(serve: Servers, tmp_path: Path) -> None:
    url = serve("--hang-after", "50")
    # Longer than a machine may take for an answer of a server that is well.
    job = _failing_in_the_run("Server", url, timeout=5.0, retries=1)
    began = time.monotonic()
    with pytest.raises(LostQuery, match=r"lost query .*no answer in time"):
        measure(job, tmp_path / "run")
    assert time.monotonic() - began < 60


def test_busy_answers_are_asked_for_again(
    serve: Servers, local_answers: Mapping[int, str], tmp_path: Path
) -> None:
    """Every 50th request is turned away: the run goes on, all is answered, and it is said."""
    url = serve("--busy", "50")
    result = measure(_job("Server", "accuracy", url), tmp_path / "run")
    assert result.valid and _answers(result) == local_answers
    (told,) = result.warnings
    assert re.match(rf"requests that {url} left unanswered: [1-9]\d*; each was sent again", told)


@pytest.mark.parametrize(
    ("fault", "told"),
    [("--refuse", "the server answered 400"), ("--cut", r"shape \[0, 10\]; expected float32")],
)
@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_unusable_answers_are_not_asked_for_again(
    kind: str, fault: str, told: str, serve: Servers
) -> None:
    url = serve(fault, "3", *KINDS[kind])
    told = told.replace("400", "INVALID_ARGUMENT") if kind == "grpc" else told
    backend = _backend(url)
    with pytest.raises(InferenceError, match=told):
        for _ in range(4):
            backend.infer(_feed(1), [0])
    assert backend.warnings == []
    backend.close()


def test_one_of_two_servers_dies(serve: Servers) -> None:
    """The other answers; the description counts two, so the loss is told; with both, it ends."""
    first, second = serve(), serve()
    backend = _backend(first, second)
    assert "2 servers test-server" in backend.framework
    expected = backend.infer(_feed(8), list(range(8)))[0]
    serve.kill(second)
    for _ in range(20):
        assert np.array_equal(backend.infer(_feed(8), list(range(8)))[0], expected)
    (told,) = backend.warnings
    assert told.startswith(f"requests that {second} left unanswered: ")
    serve.kill(first)
    with pytest.raises(LostQuery, match=r"sample 4, 7: no answer from .* after 3 attempts"):
        backend.infer(_feed(2), [4, 7])
    backend.close()


def test_the_balancer() -> None:
    balancer = Balancer(3)
    assert sorted(balancer.take(()) for _ in range(6)) == [0, 0, 1, 1, 2, 2]
    balancer.give_back(1)
    assert balancer.take(()) == 1
    for number in (0, 0, 1, 1, 2, 2):
        balancer.give_back(number)
    assert balancer.take({0, 2}) == 1
    balancer.give_back(1, failed=True)
    assert {balancer.take(()) for _ in range(8)} == {0, 2}
    assert balancer.failures == [0, 1, 0]


def test_no_server(serve: Servers) -> None:
    url = serve()
    serve.kill(url)
    began = time.monotonic()
    pytest.importorskip("tritonclient", reason='the extra "kserve" is not installed')
    for gone in (url, url.replace("http", "grpc")):
        with pytest.raises(BackendError, match="found no server of the Open Inference Protocol"):
            preflight("kserve", {"url": [gone], "timeout": 5.0})
    assert time.monotonic() - began < 12


def test_the_model_must_fit(healthy: str) -> None:
    from dataclasses import replace

    from runner.benchmarks.base import Tensor

    with pytest.raises(BackendError, match=r"no usable model 'other'.*model=NAME"):
        _backend(healthy, model="other")
    for inputs, told in (
        (Tensor("x", (None, 1, 28, 28), "float32"), "expected 'x'"),
        (Tensor(INPUT, (None, 3, 28, 28), "float32"), r"shape \[None, 3, 28, 28\]"),
        (Tensor(INPUT, (None, 1, 28, 28), "int64"), "of type INT64"),
    ):
        with pytest.raises(BackendError, match=told):
            KServe(healthy).load(replace(DIGITS, inputs=(inputs,)), None, Digits())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "found no --url"),
        ({"url": "127.0.0.1:8000"}, "expected http://host:port"),
        ({"url": "grpc://host"}, "expected http://host:port"),
        ({"url": "http://me:secret@host:1"}, "without user"),
        ({"url": "http://host:1", "timeout": 0}, "timeout=0"),
        ({"url": "http://host:1", "binary": "maybe"}, "on, off or auto"),
        ({"url": "http://host:1", "headers": "/nowhere"}, "cannot be read"),
        ({"url": "http://host:1", "colour": "red"}, r"colour=red \(.*\); it takes url, "),
    ],
)
def test_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BackendError, match=told):
        make_backend("kserve", options)


def test_urls() -> None:
    endpoint = parse_url("https://host/path/")
    assert (endpoint.place, endpoint.grpc, endpoint.secure) == ("host/path", False, True)
    assert not is_remote({"url": "http://localhost:1,grpc://127.0.0.1:2,http://[::1]:3"})
    assert is_remote({"url": ["http://localhost:1", "http://10.0.0.7:1"]})
    for url in ("http://host:port", "http://host:70000"):
        with pytest.raises(BackendError, match="expected http://host:port, "):
            parse_url(url)


def test_headers_are_sent(healthy: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer x\n\nHost: somewhere\n")
    backend = _backend(healthy, headers=str(file))
    assert backend._headers == {"Authorization": "Bearer x", "Host": "somewhere"}
    assert backend.infer(_feed(1), [0])[0].shape == (1, 10)
    file.write_text("nonsense\n")
    with pytest.raises(BackendError, match="headers:1: expected 'Name: value'"):
        KServe(healthy, headers=str(file))


def test_the_client_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", None)
    with pytest.raises(BackendError, match=r'pip install "assay\[kserve\]"'):
        preflight("kserve", {"url": "grpc://127.0.0.1:1"})


def test_description_of_a_network_division() -> None:
    """Every field that the round asks for, with words where only the submitter can know."""
    options = {"url": ["grpc://10.0.0.1:8001", "grpc://10.0.0.2:8001"]}
    told = describe_system(
        system_name="cluster",
        submitter="Acme",
        division="network",
        framework="KServe v2",
        remote=True,
        network=network_fields(options, 16),
    )
    asked = load_round("v6.1").system_description
    assert {*asked.required, *asked.network} <= set(told)
    assert told["number_connections"] == "32" and "gRPC" in told["network_protocol"]
    assert told["host_processor_model_name"] == told["operating_system"] == UNKNOWN
    assert "10.0.0" not in json.dumps(told)


def test_the_command(healthy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree that the checker finds nothing wrong with; the description names the server."""
    out = tmp_path / "tree"
    arguments = [
        "run", "--backend", "kserve", "--url", healthy, "--scenario", "SingleStream",
        "--out", str(out), "--min-duration", "1", "--no-progress", "--system", "cluster",
    ]  # fmt: skip
    assert main(arguments) == 0, capsys.readouterr()
    (file,) = out.glob("closed/*/systems/cluster.json")
    described = json.loads(file.read_text())
    assert "server test-server 1.0, model digits version 1" in described["framework"]
    capsys.readouterr()
    for arguments, told in (
        (["--backend", "kserve"], "found no --url"),
        (["--url", healthy], "--url belongs to --backend kserve"),
        (["--division", "network"], "--division network needs"),
        (["--backend", "kserve", "--url", "http://10.0.0.1:1"], "--system NAME is needed"),
    ):
        assert main(["run", "--out", str(tmp_path / "x"), *arguments]) == 2
        assert told in capsys.readouterr().err
