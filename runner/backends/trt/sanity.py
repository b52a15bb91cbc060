"""Some seconds of copies and one matrix product: whether a GPU does what its kind should."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.backends.trt.api import TensorRtApi, messages_of
from runner.backends.trt.builder import build
from runner.backends.trt.memory import Memory
from runner.backends.trt.plan import EnginePlan, Port, Profile
from runner.backends.trt.session import EngineSession
from schemas.scratch import scratch_folder

COPY_BYTES = 256 << 20
SIDE = 8192  # of the matrices: 1.1e12 operations a product


@dataclass(frozen=True)
class Copies:
    """GB/s from pinned host memory, to it, and within the device (read and written once)."""

    up: float
    down: float
    within: float


def time_copies(memory: Memory, seconds: float, nbytes: int = COPY_BYTES) -> Copies:
    """Copy one block again and again.

    Raises:
        BackendError: no memory, or a call fails.
    """
    memory.activate()
    stream = memory.stream()
    host = memory.pinned(nbytes)
    device: list[int] = []
    try:
        host[:] = 1  # pages that were never written may be one page
        device.append(memory.alloc(nbytes))
        device.append(memory.alloc(nbytes))
        return Copies(
            *(
                nbytes / _each(memory, stream, call, seconds / 3) / 1e9
                for call in (
                    lambda: memory.h2d(device[0], host, stream),
                    lambda: memory.d2h(host, device[0], stream),
                    lambda: memory.d2d(device[1], device[0], nbytes, stream),
                )
            )
        )
    finally:
        memory.synchronize(stream)
        for address in device:
            memory.free(address)
        memory.unpin(host)


def time_matmul(trt: TensorRtApi, memory: Memory, seconds: float, side: int = SIDE) -> float:
    """FP16 operations a second of a square matrix product in TensorRT, in TFLOP/s.

    Raises:
        BackendError: TensorRT cannot build or run it.
    """
    memory.activate()
    messages = messages_of(trt)
    square = (side, side)
    plan = EnginePlan(
        inputs=(Port("a", square, "float16"), Port("b", square, "float16")),
        outputs=(Port("c", square, "float16"),),
        profiles=(Profile(1, 1, 1),),
        fixed_batch=1,
        longest=1,
        whole=True,
        precision="fp16",
        tf32=False,
        workspace_mib=0,
        optimization_level=1,
    )
    with scratch_folder("assay-sanity-") as folder:
        model = folder / "matmul.onnx"
        model.write_bytes(_matmul(side))
        engine = build(trt, messages, model, plan).engine
    session = EngineSession(trt=trt, messages=messages, memory=memory, engine=engine, plan=plan)
    stream = memory.stream()
    addresses: dict[str, int] = {}
    scratch = memory.alloc(max(1, session.scratch_bytes))
    zeros = memory.pinned(2 * side * side)
    try:
        zeros[:] = 0
        for name in ("a", "b", "c"):
            addresses[name] = memory.alloc(2 * side * side)
            memory.h2d(addresses[name], zeros, stream)
        execution = session.execution(0, stream, scratch)
        shapes = {"a": square, "b": square}
        handle = memory.handle(stream)
        each = _each(memory, stream, lambda: execution.enqueue(shapes, addresses, handle), seconds)
        return float(2 * side**3 / each / 1e12)
    finally:
        memory.synchronize(stream)
        for address in (*addresses.values(), scratch):
            memory.free(address)
        memory.unpin(zeros)
        session.close()


def _each(memory: Memory, stream: Any, call: Callable[[], object], seconds: float) -> float:
    """Seconds of one call, while the stream always has the next one."""
    call()
    memory.synchronize(stream)
    count, spent = 0, 0.0
    while spent < seconds:
        began = time.perf_counter()
        for _ in range(8):
            call()
        memory.synchronize(stream)
        spent += time.perf_counter() - began
        count += 8
    return spent / count


def _matmul(side: int) -> bytes:
    from onnx import TensorProto, helper

    a, b, c = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, [side, side]) for name in "abc"
    )
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "matmul", [a, b], [c])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data
