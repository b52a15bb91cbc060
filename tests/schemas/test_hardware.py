"""Canonical names: spellings of one card are one name; what is unknown stays as written."""

from __future__ import annotations

import pytest

from schemas.hardware import accelerator, gigabytes, precision, processor


@pytest.mark.parametrize(
    ("name", "memory", "label"),
    [
        ("NVIDIA H100-SXM-80GB", None, "NVIDIA H100 SXM 80 GB"),
        ("H100-SXM-80GB", "80 GB", "NVIDIA H100 SXM 80 GB"),
        ("NVIDIA H100 80GB HBM3", "81559 MiB", "NVIDIA H100 80 GB"),
        ("Nvidia Tesla T4", "14.7 GB", "NVIDIA T4 16 GB"),
        ("NVIDIA A100-SXM-80GB (1x1g.10gb MIG)", None, "NVIDIA A100 SXM 80 GB (MIG 1x1g.10gb)"),
        ("Virtualized NVIDIA H200-SXM-141GB", None, "NVIDIA H200 SXM 141 GB (virtualized)"),
        ("NVIDIA GeForce RTX 4090 (Ada Lovelace)", "24 GB", "NVIDIA GeForce RTX 4090 24 GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "96 GB", "NVIDIA RTX PRO 6000 96 GB"),
        ("NVIDIA Jetson AGX Orin 64G", "Shared with host", "NVIDIA Jetson AGX Orin 64 GB"),
        ("AMD Instinct MI300X-NPS1-SPX-192GB-750W", "192 GB", "AMD Instinct MI300X 192 GB"),
        ("QUALCOMM Cloud AI 100 PCIe/HHHL Pro", "16 GB", "Qualcomm Cloud AI 100 Pro PCIe 16 GB"),
        ("Intel® Gaudi® 2 AI Accelerator", "96 GB", "Intel Gaudi 2 96 GB"),
        ("TPU v5e", None, "Google TPU v5e"),
    ],
)
def test_accelerator(name: str, memory: str | None, label: str) -> None:
    device = accelerator(name, memory)
    assert device is not None and device.label == label and device.raw == name


@pytest.mark.parametrize("name", ["", " ", "-", "N/A", "n/a (CPU only)", "None", "undefined"])
def test_no_accelerator(name: str) -> None:
    assert accelerator(name) is None


def test_a_count_inside_the_name() -> None:
    device = accelerator("AMD Instinct MI355X 288GB HBM3e (x87)", "288 GB")
    assert device is not None and (device.count, device.label) == (87, "AMD Instinct MI355X 288 GB")


def test_a_list_of_models_is_mixed() -> None:
    device = accelerator("2 Nodes: NVIDIA A100-SXM-80GBx8, 4 Nodes: NVIDIA A30x4")
    assert device is not None and device.mixed and device.name == "NVIDIA A100 + NVIDIA A30"


def test_an_unknown_name_stays() -> None:
    device = accelerator("Acme  Thinker_9000")
    assert device is not None and not device.known and device.name == "Acme Thinker 9000"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("Intel(R) Xeon(R) Platinum 8369B CPU @ 2.90GHz", "Intel Xeon Platinum 8369B"),
        ("Intel 8368Q(Platinum)", "Intel Xeon Platinum 8368Q"),
        ("2xAMD EPYC 9374F", "AMD EPYC 9374F"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "AMD Ryzen 9 7950X"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "Intel Core i9-13900K"),
        ("NVIDIA Grace CPU", "NVIDIA Grace"),
    ],
)
def test_processor(name: str, canonical: str) -> None:
    device = processor(name)
    assert device is not None and device.name == canonical


def test_precision_is_a_set() -> None:
    assert precision("INT8, fp16") == precision("fp16/int8") == "int8+fp16"
    assert precision("mxfp4 (LLMs), fp32 (embedding/reranker)") == "fp4+fp32"
    assert precision("UNSET") == "not stated"


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5 TB", 1536), ("180\u2009GB", 180), ("0 GB", None), ("9" * 400 + " GB", None)],
)
def test_gigabytes(text: str, size: int | None) -> None:
    assert gigabytes(text) == size
