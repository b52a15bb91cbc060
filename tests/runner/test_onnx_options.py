"""ONNX Runtime's options: what it does not have is refused, what ran is what a result states."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.cli import main
from runner import BackendError, SettingsError, measure, plan_of, read_run_file
from runner.affinity import cpu_list, parse_cpus
from runner.backends import onnxrt
from runner.backends.onnx_session import (
    CPU,
    SessionOptions,
    statement,
    unverified,
    verify_options,
    weight_types,
)
from runner.backends.onnxrt import OnnxRuntime
from runner.benchmarks import get_benchmark
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import Digits
from runner.run import Job, server_batch_size
from runner.settings import RunSettings
from schemas.run_file import read
from schemas.timeline import beside
from tests.runner.test_run import job

MODEL = DIGITS.models["fp32"]


def loaded(**options: Any) -> OnnxRuntime:
    backend = OnnxRuntime(**{"threads": 1, **options})
    backend.load(DIGITS, MODEL, Digits())
    return backend


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"session_config": {"session.disable_prepackin": 1}},
            "entry session.disable_prepackin, which",
        ),
        ({"session_config": {"session.intra_op.allow_spinning": 0}}, "expected --spinning"),
        (
            {"providers": ["cuda"], "session_config": {"session.disable_cpu_ep_fallback": "0"}},
            "name cpu after CUDAExecutionProvider",
        ),
        ({"provider_options": {"cpu": {"arena": 1}}}, "found option arena of CPU.*which has none"),
        (
            {"provider_options": {"cuda": {"device_id": 0}}},
            "found options of CUDAExecutionProvider",
        ),
        ({"inter_op_threads": 0}, "expected 1 or more"),
        ({"threads": 2.5}, "expected 0"),
        ({"devices": [0, 1]}, "which has none"),
        ({"providers": ["cuda"], "devices": [1, 1]}, "expected different numbers"),
        (
            {
                "providers": ["cuda"],
                "devices": [0, 1],
                "provider_options": {"cuda": {"device_id": 1}},
            },
            "expected one of them",
        ),
        (
            {"session_config": {"session.intra_op_thread_affinities": "first"}, "threads": 2},
            "cannot load it.*digits",
        ),
    ],
)
def test_what_onnx_runtime_does_not_have_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        OnnxRuntime.preflight(options)
        loaded(**options)


def test_the_statement_is_what_the_session_reports() -> None:
    backend = loaded(
        threads=2,
        inter_op_threads=3,
        spinning=False,
        optimization="basic",
        session_config={"session.disable_prepacking": True},
    )
    assert backend.framework.partition(" (")[2] == (
        "CPUExecutionProvider, 2 intra-op threads, 3 inter-op threads, no spinning, graph optimization "
        "basic, session.disable_prepacking=1)"
    )
    backend.close()


class Reporting:
    """A session that reports what the GPU providers of a real one would."""

    def __init__(self, **options: str) -> None:
        self.options = options
        import onnxruntime

        self.asked = onnxruntime.SessionOptions()
        self.asked.add_session_config_entry("session.intra_op.allow_spinning", "1")

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {"CUDAExecutionProvider": self.options, CPU: {}}

    def get_session_options(self) -> Any:
        return self.asked


def test_options_are_held_against_those_that_the_provider_reports() -> None:
    reported = {"device_id": "1", "enable_cuda_graph": "0", "gpu_mem_limit": "1000", "cache": "a"}
    verify_options("X", {"device_id": 1, "gpu_mem_limit": "1e3", "cache": "a"}, reported)
    verify_options("X", {"enable_cuda_graph": False}, reported)
    verify_options("Silent", {"device_type": "CPU"}, {})
    for asked, message in (
        ({"device": 1}, "found option device of X; expected some of cache, device_id"),
        (
            {"enable_cuda_graph": "true"},
            "found enable_cuda_graph=0 in X; expected enable_cuda_graph=true",
        ),
        ({"cache": "b"}, "found cache=a in X; expected cache=b"),
    ):
        with pytest.raises(BackendError, match=message):
            verify_options("X", asked, reported)
    options = SessionOptions(
        providers=["CUDAExecutionProvider"],
        provider_options={"CUDAExecutionProvider": {"device_id": 7}},
    )
    sessions = [Reporting(device_id="0"), Reporting(device_id="1")]
    assert "CUDAExecutionProvider with device_id=0 and 1," in statement(options, sessions)
    assert unverified(options, sessions[0]) == []
    assert unverified(options, Reporting()) == [
        "CUDAExecutionProvider does not report its options: that device_id=7 took effect was not verified"
    ]
    assert options.on_device(3).provider_options == {"CUDAExecutionProvider": {"device_id": 3}}


def test_tensorrt_may_change_the_weights_types() -> None:
    options = {"provider_options": {"tensorrt": {"trt_fp16_enable": "1", "trt_int8_enable": False}}}
    assert weight_types(options) == ["fp16"]
    assert weight_types({}) == []


@pytest.mark.parametrize("graphs", [False, True])
def test_batches_in_device_memory_give_what_plain_ones_give(graphs: bool) -> None:
    """On the CPU as the device: the calls are those that CUDA gets."""
    data = Digits()
    plain, bound = loaded(), loaded(io_binding=True)
    bound._place, bound._graphs = ("cpu", 0), graphs
    for first, last in ((0, 5), (5, 10), (10, 11), (0, 5)):
        feed = data.load(range(first, last))
        (expected,) = plain.infer(feed, range(first, last))
        (found,) = bound.infer(feed, range(first, last))
        assert np.array_equal(found, expected)
    assert sorted(bound._own.bindings) == [1, 5]
    bound.close()


def test_threads_share_out_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[SessionOptions] = []
    real = onnxrt.open_session

    def open_on_cpu(options: SessionOptions, model: Path, profile: Path | None = None) -> Any:
        opened.append(options)
        return real(SessionOptions(threads=1), model, profile)

    monkeypatch.setattr(onnxrt, "open_session", open_on_cpu)
    monkeypatch.setattr(onnxrt, "verify_available", lambda providers: None)
    backend = loaded(providers=["MIGraphXExecutionProvider"], devices=[2, 5])
    assert [o.provider_options["MIGraphXExecutionProvider"]["device_id"] for o in opened] == [2, 5]
    feed = Digits().load(range(3))
    seen: list[int] = []

    def infer() -> None:
        for _ in range(3):
            assert backend.infer(feed, range(3))[0].shape == (3, 10)
        seen.append(backend._session()[1])

    threads = [threading.Thread(target=infer) for _ in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == [0, 1, 0, 1]


def test_a_profile_and_a_timeline_lie_beside_the_logs(tmp_path: Path) -> None:
    one = job(
        "SingleStream", backend="onnxruntime", profile=True, cpus=(min(os.sched_getaffinity(0)),)
    )
    one = replace(one, model=str(MODEL), backend_options={"threads": 1, "spinning": False})
    run = measure(one, tmp_path / "run")
    (profile,) = (tmp_path / "run").glob("onnxruntime_profile_digits_fp32_*.json")
    names = {event["name"] for event in json.loads(profile.read_text("utf-8"))}
    assert "model_run" in names
    assert "profiling" in run.framework and "profiler was on" in " ".join(run.warnings)
    assert run.conditions["Processors"] == f"{min(os.sched_getaffinity(0))}, bound"
    assert beside(tmp_path / "run") == tmp_path / "run"
    with pytest.raises(SettingsError, match="writes no profile"):
        measure(replace(one, backend="dummy", backend_options={}), tmp_path / "other")


def test_lists_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8})
    assert parse_cpus("2-3, 8,2") == (2, 3, 8)
    assert cpu_list((8, 2, 3, 1)) == "1-3,8"
    for text, message in (
        ("4-5", "found processors 4-5; expected some of 0-3,8"),
        ("3-1", "found '3-1'"),
        ("", "found ''"),
        ("node9999", "no NUMA node 9999"),
    ):
        with pytest.raises(SettingsError, match=message):
            parse_cpus(text)


def test_the_command_s_options_become_a_run_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "run.toml"
    arguments = [
        "run", "--out", str(tmp_path / "tree"), "--dry-run", "--save-config", str(saved),
        "--provider", "tensorrt", "--provider", "cuda", "--provider-option", "trt_fp16_enable=1",
        "--provider-option", "cuda.device_id=1", "--session-config", "session.disable_prepacking=1",
        "--devices", "0,1", "--inter-op-threads", "2", "--warm-up", "2", "--profile",
    ]  # fmt: skip
    assert main(arguments) == 0
    execution = read(saved.read_text("utf-8")).execution
    assert execution.provider_options == {
        "tensorrt": {"trt_fp16_enable": "1"}, "cuda": {"device_id": "1"},
    }  # fmt: skip
    assert execution.session_config == {"session.disable_prepacking": "1"}
    assert (execution.devices, execution.inter_op_threads, execution.profile) == ([0, 1], 2, True)
    refused: list[tuple[Callable[[], int], str]] = [
        (lambda: main([*arguments, "--backend", "dummy"]), "--provider-option belongs to"),
        (lambda: main([*arguments, "--devices", "0-1"]), "is not a list of device numbers"),
        (lambda: main([*arguments, "--provider-option", "=1"]), "is not of the form"),
    ]
    for call, message in refused:
        assert call() == 2
        assert message in capsys.readouterr().err


def test_a_worker_for_each_device_of_onnx_runtime(tmp_path: Path) -> None:
    def workers(**more: Any) -> int:
        return plan_of(read_run_file(out=tmp_path / "tree", **more)).execution.workers

    assert workers(devices=[0, 1, 2], providers=["cuda"]) == 3
    assert workers(devices=[0, 1], providers=["cuda"], workers=6) == 6
    assert workers(devices=[0, 1], backend="tensorrt") == 1


def test_convolutions_are_not_batched_for_server_on_processors() -> None:
    """Eight pictures take as long there as one after the other, and the first waits for the last."""
    settings = RunSettings("resnet50", "Server")
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("resnet50", {}, 1),
        ("scenes", {"providers": ["CPUExecutionProvider"]}, 1),
        ("resnet50", {"providers": ("cuda", "cpu")}, 8),
        ("phrasebook", {}, 8),
    ]
    for name, options, expected in cases:
        asked = Job(name, settings, backend_options=options)
        assert server_batch_size(asked, get_benchmark(name)) == expected
