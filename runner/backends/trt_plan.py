"""What is to be built and how a batch is cut up: arithmetic, no device and no library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from runner.errors import BackendError

if TYPE_CHECKING:
    from runner.benchmarks.base import Benchmark, Tensor

ITEM_BYTES = {
    "float32": 4,
    "float16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int32": 4,
    "int64": 8,
}
PRECISIONS = ("as-is", "fp16")
# Changes when the meaning of a stored engine changes, so that older ones are built again.
KEY_FORMAT = 1


@dataclass(frozen=True)
class Row:
    """A model input or output of one sample: everything but the batch."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Profile:
    """The batch sizes one execution context is good for; `best` is what it is tuned for."""

    least: int
    best: int
    most: int

    def shapes(self, row: Row) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Least, best and greatest shape of an input."""
        least, best, most = ((n, *row.shape) for n in (self.least, self.best, self.most))
        return least, best, most


@dataclass(frozen=True)
class EnginePlan:
    """All that decides what an engine is, apart from the model, the library and the device.

    Attributes:
        fixed_batch: the batch the model was exported with; None where it is dynamic.
    """

    inputs: tuple[Row, ...]
    outputs: tuple[Row, ...]
    profiles: tuple[Profile, ...]
    fixed_batch: int | None
    precision: str
    workspace_mib: int
    optimization_level: int

    @property
    def most(self) -> int:
        """Most samples in one execution."""
        return self.profiles[-1].most

    def profile_for(self, count: int) -> int:
        """Index of the tightest profile that takes `count` samples."""
        for index, profile in enumerate(self.profiles):
            if count <= profile.most:
                return index
        raise BackendError(f"found a chunk of {count} samples; the engine takes {self.most}.")

    def executed(self, count: int) -> int:
        """Samples that run where `count` are wanted: a fixed batch is filled up."""
        return self.fixed_batch or count


def rows(tensors: Sequence[Tensor]) -> tuple[Row, ...]:
    """Signature of a benchmark without the batch.

    Raises:
        BackendError: the batch is not the first dimension, another one is open, or a type has
            no counterpart.
    """
    result = []
    for tensor in tensors:
        rest = tensor.shape[1:]
        if not tensor.shape or tensor.shape[0] is not None or None in rest:
            raise BackendError(
                f"found {tensor.name!r} of shape {list(tensor.shape)}; the TensorRT backend takes "
                "tensors whose first dimension, and no other, is the batch (None). Use "
                "--backend onnxruntime for this benchmark."
            )
        if tensor.dtype not in ITEM_BYTES:
            raise BackendError(
                f"found {tensor.name!r} of type {tensor.dtype}; the TensorRT backend takes "
                f"{', '.join(ITEM_BYTES)}."
            )
        result.append(Row(tensor.name, tuple(n for n in rest if n is not None), tensor.dtype))
    return tuple(result)


def buckets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Batch sizes worth a profile: each once, rising, and always 1."""
    return tuple(sorted({1, *(size for size in sizes if size > 0)}))


def make_plan(
    benchmark: Benchmark,
    *,
    fixed_batch: int | None,
    precision: str,
    max_batch: int | None,
    workspace_mib: int,
    optimization_level: int,
) -> EnginePlan:
    """The plan of a benchmark: one profile for each batch size that the scenarios send.

    Args:
        fixed_batch: the batch the model holds, or None.
        max_batch: most samples in one execution; None: the benchmark's greatest.
    """
    inputs, outputs = rows(benchmark.inputs), rows(benchmark.outputs)
    if fixed_batch is not None:
        profiles: tuple[Profile, ...] = (Profile(fixed_batch, fixed_batch, fixed_batch),)
    else:
        most = max_batch or max(benchmark.batch_size, benchmark.server_batch_size)
        # 8 is what MultiStream sends.
        sizes = [n for n in (8, benchmark.server_batch_size, benchmark.batch_size) if n < most]
        profiles = tuple(Profile(1, size, size) for size in buckets([*sizes, most]))
    return EnginePlan(
        inputs, outputs, profiles, fixed_batch, precision, workspace_mib, optimization_level
    )


def engine_facts(
    plan: EnginePlan, *, model_sha256: str, tensorrt: str, device: str, capability: str
) -> dict[str, Any]:
    """All that an engine depends on, as JSON values: equal facts, interchangeable engines."""
    content = asdict(plan)
    return {
        "key format": KEY_FORMAT,
        "model": model_sha256,
        "TensorRT": tensorrt,
        "device": device,
        "compute capability": capability,
        "precision": content["precision"],
        "workspace MiB": content["workspace_mib"],
        "optimization level": content["optimization_level"],
        "shapes": {
            "profiles": [[p.least, p.best, p.most] for p in plan.profiles],
            "fixed batch": plan.fixed_batch,
            "inputs": [[r.name, list(r.shape), r.dtype] for r in plan.inputs],
            "outputs": [[r.name, list(r.shape), r.dtype] for r in plan.outputs],
        },
    }


def cache_key(facts: Mapping[str, Any]) -> str:
    """SHA-256 of the facts."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def split(count: int, most: int, lanes: int, worth: int) -> tuple[tuple[int, int], ...]:
    """Cut a batch into chunks (start, stop), nearly equal, for lanes that run side by side.

    Args:
        most: samples in one execution, at most.
        lanes: streams of all devices.
        worth: a chunk below this size is not worth a lane of its own; it only gets one where
            `most` demands it.
    """
    chunks = max(-(-count // most), min(lanes, count // max(1, worth)), 1)
    if chunks > lanes:  # whole rounds, so that no lane idles in the last one
        chunks = min(-(-chunks // lanes) * lanes, count)
    base, more = divmod(count, chunks)
    result, start = [], 0
    for number in range(chunks):
        stop = start + base + (number < more)
        result.append((start, stop))
        start = stop
    return tuple(result)
