"""What is built and how batches are cut up: arithmetic only."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.backends.trt.plan import (
    EnginePlan,
    Port,
    Profile,
    buckets,
    cache_key,
    default_batch,
    engine_facts,
    make_plan,
    split,
)
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.digits import DIGITS
from runner.errors import BackendError, InferenceError


def plan(benchmark: Benchmark = DIGITS, **more: object) -> EnginePlan:
    values = {
        "fixed_batch": None,
        "whole": False,
        "precision": "fp32",
        "tf32": False,
        "batch": 125,
        "max_batch": None,
        "longest": 64,
        "workspace_mib": 0,
        "optimization_level": 3,
    }
    return make_plan(benchmark, **{**values, **more})  # type: ignore[arg-type]


def test_one_profile_for_each_batch_that_is_sent() -> None:
    made = plan()
    assert made.profiles == (Profile(1, 1, 1), Profile(1, 8, 8), Profile(1, 125, 125))
    assert made.most == 125
    assert not made.whole
    assert [made.profile_for(n) for n in (1, 2, 8, 9, 125)] == [0, 1, 1, 2, 2]
    with pytest.raises(InferenceError, match=r"found a batch of 126 .* takes 125.*max_batch"):
        made.profile_for(126)


def test_a_given_plan_s_profiles_may_begin_above_one_and_come_in_any_order() -> None:
    made = replace(plan(), profiles=(Profile(16, 32, 64), Profile(4, 8, 8)))
    assert made.most == 64
    assert [made.executed(n) for n in (1, 4, 9, 16, 40)] == [4, 4, 16, 16, 40]
    assert [made.profile_for(n) for n in (4, 8, 16, 64)] == [1, 1, 0, 0]


def test_max_batch_bounds_every_profile() -> None:
    assert [p.most for p in plan(max_batch=4).profiles] == [1, 4]
    assert [p.most for p in plan(max_batch=1).profiles] == [1]
    assert [p.most for p in plan(max_batch=500).profiles] == [1, 8, 125, 500]


def test_a_fixed_batch_is_its_own_profile_and_is_filled_up() -> None:
    made = plan(fixed_batch=4)
    assert made.profiles == (Profile(4, 4, 4),)
    assert (made.executed(3), made.executed(4)) == (4, 4)
    assert plan().executed(3) == 3


def test_shapes_and_sizes() -> None:
    image = Port("image", (None, 3, 224, 224), "float32")
    assert image.plain and image.at(2, 9) == (2, 3, 224, 224)
    assert image.nbytes(image.at(2, 9)) == 2 * 3 * 224 * 224 * 4
    memory = Port("memory", (None, None, 96), "float16")
    assert not memory.plain and memory.at(2, 9) == (2, 9, 96)
    assert Profile(1, 4, 8).shapes(memory, 64) == ((1, 1, 96), (4, 16, 96), (8, 64, 96))
    state = Port("state", (1, None, 96), "float32")
    assert state.batch_axis == 1 and not state.plain and state.at(5, 9) == (1, 5, 96)
    assert memory.fits((-1, 7, 96)) and not memory.fits((2, 96)) and not memory.fits((1, 2, 3))


def test_open_dimensions_and_free_rows_forbid_cutting() -> None:
    words = replace(DIGITS, inputs=(Tensor("words", (None, None), "int64"),))
    assert plan(words).whole
    assert plan(whole=True).whole


def test_a_type_without_counterpart_is_refused() -> None:
    text = replace(DIGITS, inputs=(Tensor("text", (None,), "str"),))
    with pytest.raises(BackendError, match="found 'text' of type str; the TensorRT backend takes"):
        plan(text)


@pytest.mark.parametrize(
    ("sms", "free_gb", "side", "batch"),
    [(132, 140, 224, 256), (58, 23, 224, 64), (108, 39, 224, 128),
     (132, 140, 1200, 8), (132, 1, 224, 64), (4, 140, 224, 8), (0, 140, 224, 2), (4000, 140, 224, 256)],
)  # fmt: skip
def test_the_default_batch_fills_the_device(sms: int, free_gb: int, side: int, batch: int) -> None:
    images = replace(
        DIGITS,
        inputs=(Tensor("image", (None, 3, side, side), "float32"),),
        batch_size=1,
        performance_sample_count=1024,
    )
    assert default_batch(images, sms, free_gb << 30, streams=2) == batch
    # The benchmark's own is the least, what is loaded at once the most.
    assert default_batch(replace(images, batch_size=300), sms, free_gb << 30, streams=2) == 300
    few = replace(images, performance_sample_count=2)
    assert default_batch(few, sms, free_gb << 30, streams=2) == 2
    words = replace(images, inputs=(Tensor("words", (None, None), "int64"),), batch_size=7)
    assert default_batch(words, sms, free_gb << 30, streams=2) == 7


def test_buckets_rise_and_hold_one() -> None:
    assert buckets([8, 8, 32, 0]) == (1, 8, 32)


def facts(made: EnginePlan | None = None, **more: str) -> dict[str, object]:
    values = {
        "model_sha256": "ab" * 32,
        "tensorrt": "11.4.0.106",
        "device": "NVIDIA H200",
        "capability": "9.0",
        "driver": "570.86.15",
    }
    return engine_facts(made or plan(), **{**values, **more})


@pytest.mark.parametrize(
    "other",
    [
        facts(model_sha256="cd" * 32),
        facts(tensorrt="10.16.1.11"),
        facts(device="NVIDIA L4"),
        facts(capability="8.9"),
        facts(driver="580.65.06"),
        facts(plan(sparsity=True)),
        facts(plan(precision="fp16")),
        facts(plan(tf32=True)),
        facts(plan(max_batch=64)),
        facts(plan(fixed_batch=1)),
        facts(plan(longest=65)),
        facts(plan(workspace_mib=1)),
        facts(plan(optimization_level=4)),
    ],
)
def test_the_key_depends_on_everything(other: dict[str, object]) -> None:
    assert cache_key(other) != cache_key(facts())


def test_the_key_is_the_same_for_the_same() -> None:
    assert cache_key(facts()) == cache_key(dict(reversed(facts().items())))
    assert len(cache_key(facts())) == 64


@given(
    count=st.integers(1, 3000),
    most=st.integers(1, 256),
    lanes=st.integers(1, 16),
    worth=st.integers(1, 200),
)
def test_chunks_cover_a_batch_evenly(count: int, most: int, lanes: int, worth: int) -> None:
    chunks = split(count, most, lanes, worth)
    assert chunks[0][0] == 0 and chunks[-1][1] == count
    assert all(a[1] == b[0] for a, b in pairwise(chunks))
    sizes = [stop - start for start, stop in chunks]
    assert min(sizes) >= 1 and max(sizes) <= most and max(sizes) - min(sizes) <= 1
    if count <= most and count < 2 * worth:
        assert len(chunks) == 1


def test_chunks_by_example() -> None:
    assert split(1, 128, 4, 32) == ((0, 1),)
    assert split(63, 128, 4, 32) == ((0, 63),)
    assert split(64, 128, 4, 32) == ((0, 32), (32, 64))
    assert split(128, 128, 2, 32) == ((0, 64), (64, 128))
    # Five are needed; six keep both lanes busy to the end.
    assert len(split(640, 128, 2, 640)) == 6
