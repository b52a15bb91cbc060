"""What NVML tells of the GPUs that were used reaches the system description."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import gpu
from runner.benchmarks.digits import DIGITS
from runner.preparing import job_of
from runner.system import describe_system
from tests.runner.plans import plan_with
from tests.runner.test_doctor import Nvml


@pytest.mark.parametrize(("framework", "count"), [("TensorRT 11 (CUDA 13.0, NVIDIA H200 x 2)", "2"),
                                                  ("ONNX Runtime (CPU)", "0")])  # fmt: skip
def test_used_gpus_are_described(
    monkeypatch: pytest.MonkeyPatch, framework: str, count: str
) -> None:
    real = gpu.read_gpus
    monkeypatch.setattr(gpu, "read_gpus", lambda: real(Nvml()))
    told = describe_system(
        system_name="s",
        submitter="s",
        division="open",
        framework=framework,
        uses_accelerator="CUDA" in framework,
    )
    assert told["accelerators_per_node"] == count
    assert ("NVIDIA H200" in told["accelerator_model_name"]) == (count != "0")
    assert ("power limit 700 W" in told["hw_notes"]) == (count != "0")


def test_fp16_is_made_from_the_float32_model() -> None:
    plan = plan_with("digits", Path("x"), backend="tensorrt", precision="fp16")
    job = job_of(plan, DIGITS, "Offline", "accuracy")
    assert job.model == str(DIGITS.models["fp32"]) and job.backend_options["precision"] == "fp16"
