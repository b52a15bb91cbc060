"""What is to be built and how a batch is cut up: arithmetic, no device and no library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from runner.errors import BackendError, InferenceError

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
PRECISIONS = ("as-is", "fp32", "tf32", "fp16", "bf16", "int8", "fp8")
FILLING_BYTES = 256 << 20
# Changes when the meaning of a stored engine changes, so that older ones are built again.
KEY_FORMAT = 2


@dataclass(frozen=True)
class Port:
    """A model input or output.  None in `shape`: the first is the batch, others are lengths."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    @property
    def batch_axis(self) -> int | None:
        return self.shape.index(None) if None in self.shape else None

    @property
    def plain(self) -> bool:
        """Whether it is one row for each sample, all rows of one size."""
        return self.shape.count(None) == 1 and self.shape[0] is None

    def at(self, batch: int, length: int) -> tuple[int, ...]:
        """The shape for a batch and a length."""
        axis = self.batch_axis
        return tuple(
            n if n is not None else batch if place == axis else length
            for place, n in enumerate(self.shape)
        )

    def nbytes(self, shape: Sequence[int]) -> int:
        """Bytes of a tensor of this shape."""
        return prod(shape) * ITEM_BYTES[self.dtype]

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether this shape (-1: not known) can be one of this port's."""
        return len(shape) == len(self.shape) and all(
            want is None or have in (want, -1) for have, want in zip(shape, self.shape, strict=True)
        )


@dataclass(frozen=True)
class Profile:
    """The batch sizes one execution context is good for; `best` is what it is tuned for."""

    least: int
    best: int
    most: int

    def shapes(self, port: Port, longest: int) -> tuple[tuple[int, ...], ...]:
        """Least, best and greatest shape of an input."""
        return (
            port.at(self.least, 1),
            port.at(self.best, max(1, longest // 4)),
            port.at(self.most, longest),
        )


@dataclass(frozen=True)
class EnginePlan:
    """All that decides what an engine is, apart from the model, the library and the device.

    Attributes:
        fixed_batch: the batch the model was exported with; None where it is dynamic.
        longest: greatest length of dimensions that are neither fixed nor the batch.
        tf32: float32 may be multiplied with 10 bits of mantissa, as TensorRT does by itself.
        sparsity: weights of which two in four are zero may use the tensor cores' sparse path.
        whole: batches must not be cut up: an output is not one row for each sample, or a
            dimension beside the batch is open.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    profiles: tuple[Profile, ...]
    fixed_batch: int | None
    longest: int
    whole: bool
    precision: str
    tf32: bool
    workspace_mib: int
    optimization_level: int
    sparsity: bool = False

    @property
    def most(self) -> int:
        """Most samples in one execution."""
        return max(profile.most for profile in self.profiles)

    def profile_for(self, count: int) -> int:
        """Index of the tightest profile that takes `count` samples.

        Raises:
            InferenceError: none does.
        """
        fitting = [
            (profile.most, index)
            for index, profile in enumerate(self.profiles)
            if profile.least <= count <= profile.most
        ]
        if fitting:
            return min(fitting)[1]
        raise InferenceError(
            f"found a batch of {count} samples, which cannot be cut up; the engine takes "
            f"{self.most}. Raise the option max_batch."
        )

    def executed(self, count: int) -> int:
        """Samples that run where `count` are wanted: a fixed batch is filled up, and so is one
        that is smaller than a given plan takes."""
        if self.fixed_batch is not None:
            return self.fixed_batch
        if any(profile.least <= count <= profile.most for profile in self.profiles):
            return count
        return min((p.least for p in self.profiles if p.least > count), default=count)


def ports(tensors: Sequence[Tensor]) -> tuple[Port, ...]:
    """Signature of a benchmark.

    Raises:
        BackendError: a type has no counterpart.
    """
    result = []
    for tensor in tensors:
        if tensor.dtype not in ITEM_BYTES:
            raise BackendError(
                f"found {tensor.name!r} of type {tensor.dtype}; the TensorRT backend takes "
                f"{', '.join(ITEM_BYTES)}."
            )
        result.append(Port(tensor.name, tensor.shape, tensor.dtype))
    return tuple(result)


def graph_sizes(most: int) -> tuple[int, ...]:
    """Batch sizes worth a CUDA graph: 1, 2, 3, 4, 6, 8, 12 …, so that a batch which is filled up
    to the next grows by half at the most, and by a fifth on average."""
    sizes, size = {1, most}, 1
    while size < most:
        sizes |= {size, size * 3 // 2}
        size *= 2
    return tuple(sorted(size for size in sizes if size <= most))


def buckets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Batch sizes worth a profile: each once, rising, and always 1."""
    return tuple(sorted({1, *(size for size in sizes if size > 0)}))


def default_batch(benchmark: Benchmark, multiprocessors: int, free_bytes: int, streams: int) -> int:
    """Samples in one inference that fill a device: two for each multiprocessor, down to a power of
    two (256 on an H200, 64 on an L4).  Large samples need fewer: half of that as long as the inputs
    take more than `FILLING_BYTES` (what layers keep is a multiple of it), or all buffers more than
    a quarter of the free memory.  Never below the benchmark's own, nor more than are loaded.
    """
    tensors = ports((*benchmark.inputs, *benchmark.outputs))
    if not all(port.plain for port in tensors):
        return benchmark.batch_size
    batch = 1 << max(0, (2 * max(1, multiprocessors)).bit_length() - 1)
    batch = min(batch, 1024)
    each = 2 * streams * sum(port.nbytes(port.at(1, 1)) for port in tensors)
    inputs = sum(port.nbytes(port.at(1, 1)) for port in ports(benchmark.inputs))
    while batch > 1 and (batch * each > free_bytes // 4 or batch * inputs > FILLING_BYTES):
        batch //= 2
    return max(benchmark.batch_size, min(batch, benchmark.performance_sample_count))


def make_plan(
    benchmark: Benchmark,
    *,
    fixed_batch: int | None,
    whole: bool,
    precision: str,
    batch: int,
    max_batch: int | None,
    longest: int,
    tf32: bool,
    workspace_mib: int,
    optimization_level: int,
    sparsity: bool = False,
) -> EnginePlan:
    """The plan of a benchmark: one profile for each batch size that the scenarios send.

    Args:
        fixed_batch: the batch the model holds, or None.
        whole: the model has outputs that are not one row for each sample.
        batch: samples in one inference.
        max_batch: most samples in one execution; None: the greatest of the run.
    """
    inputs, outputs = ports(benchmark.inputs), ports(benchmark.outputs)
    if fixed_batch is not None:
        profiles: tuple[Profile, ...] = (Profile(fixed_batch, fixed_batch, fixed_batch),)
    else:
        # 8 is what MultiStream sends.
        sizes = (8, batch)
        most = max_batch or max(sizes)
        profiles = tuple(
            Profile(1, size, size) for size in buckets([*(n for n in sizes if n < most), most])
        )
    return EnginePlan(
        inputs=inputs,
        outputs=outputs,
        profiles=profiles,
        fixed_batch=fixed_batch,
        longest=longest,
        whole=whole or not all(port.plain for port in (*inputs, *outputs)),
        precision=precision,
        tf32=tf32,
        workspace_mib=workspace_mib,
        optimization_level=optimization_level,
        sparsity=sparsity,
    )


def engine_facts(
    plan: EnginePlan,
    *,
    model_sha256: str,
    tensorrt: str,
    device: str,
    capability: str,
    driver: str,
) -> dict[str, Any]:
    """All that an engine depends on, as JSON values: equal facts, interchangeable engines."""
    content = asdict(plan)
    return {
        "key format": KEY_FORMAT,
        "model": model_sha256,
        "TensorRT": tensorrt,
        "device": device,
        "compute capability": capability,
        "driver": driver,
        "precision": content["precision"],
        "TF32": content["tf32"],
        "sparsity": content["sparsity"],
        "workspace MiB": content["workspace_mib"],
        "optimization level": content["optimization_level"],
        "shapes": {
            "profiles": [[p.least, p.best, p.most] for p in plan.profiles],
            "fixed batch": plan.fixed_batch,
            "longest": plan.longest,
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
