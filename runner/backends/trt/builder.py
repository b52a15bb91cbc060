"""From ONNX to a serialised engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.backends.trt.api import IProgressMonitorApi, Messages, TensorRtApi
from runner.backends.trt.plan import EnginePlan
from runner.errors import BackendError

# Phase, steps done, steps in all; False ends the build.
OnProgress = Callable[[str, int, int], bool | None]


@dataclass(frozen=True)
class Built:
    engine: bytes
    timings: bytes


def build(
    trt: TensorRtApi,
    messages: Messages,
    model: Path,
    plan: EnginePlan,
    *,
    timings: bytes = b"",
    on_progress: OnProgress | None = None,
) -> Built:
    """Build an engine for the device that is current.

    Args:
        model: an ONNX file, whose types are what will run: the network is strongly typed.
        timings: what earlier builds measured.

    Raises:
        BackendError: the model cannot be parsed or built, with TensorRT's words; or
            `on_progress` ended it.
    """
    trt.init_libnvinfer_plugins(messages.logger, "")
    builder = trt.Builder(messages.logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, messages.logger)
    if not parser.parse_from_file(str(model)):
        told = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        raise BackendError(
            f"{model}: TensorRT {trt.__version__} cannot take this model: "
            f"{' | '.join(told[:3]) or messages.last_errors()}. Use --backend onnxruntime, or "
            "export the model with operators that it has."
        )
    config = builder.create_builder_config()
    config.builder_optimization_level = plan.optimization_level
    # So that the engine can say what each layer runs in.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if not plan.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if plan.sparsity:
        config.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS)
    if plan.workspace_mib:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, plan.workspace_mib << 20)
    if plan.fixed_batch is None:
        inputs = {network.get_input(i).name for i in range(network.num_inputs)}
        for profile in plan.profiles:
            shapes = builder.create_optimization_profile()
            for port in plan.inputs:
                # An input that the graph does not use is gone from the network.
                if port.name in inputs:
                    least, best, most = profile.shapes(port, plan.longest)
                    shapes.set_shape(port.name, least, best, most)
            if config.add_optimization_profile(shapes) < 0:
                raise BackendError(
                    f"{model}: TensorRT refused the batch sizes {profile.least} to "
                    f"{profile.most}: {messages.last_errors()}."
                )
    cache = config.create_timing_cache(timings)
    if cache is None or not config.set_timing_cache(cache, False):
        # Measured on another device or by another version: begin anew.
        cache = config.create_timing_cache(b"")
        if cache is not None:
            config.set_timing_cache(cache, False)
    watch = _Watch(on_progress)
    # Held here: TensorRT does not keep the monitor alive.
    monitor = _monitor(trt, watch) if on_progress is not None else None
    if monitor is not None:
        config.progress_monitor = monitor
    data = builder.build_serialized_network(network, config)
    if watch.error is not None:
        raise watch.error
    if data is None:
        if watch.stopped:
            raise BackendError(f"{model}: the build of the engine was ended.")
        raise BackendError(
            f"{model}: TensorRT {trt.__version__} could not build an engine: "
            f"{messages.last_errors()}."
        )
    measured = config.get_timing_cache()
    return Built(_bytes(data), _bytes(measured.serialize()) if measured is not None else b"")


def _bytes(memory: Any) -> bytes:
    return bytes(memory)


class _Watch:
    """Adds up a build's phases; what its listener raises is kept, since TensorRT cannot take it."""

    def __init__(self, listener: OnProgress | None) -> None:
        self.listener = listener
        self.steps: dict[str, int] = {}
        self.stopped = False
        self.error: BaseException | None = None

    def tell(self, phase: str, done: int) -> bool:
        if self.listener is not None and not self.stopped:
            try:
                self.stopped = self.listener(phase, done, self.steps.get(phase, 0)) is False
            except BaseException as error:
                self.error, self.stopped = error, True
        return not self.stopped


def _monitor(trt: TensorRtApi, watch: _Watch) -> IProgressMonitorApi:
    base = trt.IProgressMonitor

    def begin(self: Any) -> None:
        base.__init__(self)

    def phase_start(self: Any, name: str, parent: str | None, steps: int) -> None:
        watch.steps[name] = int(steps)
        watch.tell(name, 0)

    def step_complete(self: Any, name: str, step: int) -> bool:
        return watch.tell(name, int(step) + 1)

    def phase_finish(self: Any, name: str) -> None:
        watch.tell(name, watch.steps.get(name, 0))

    methods = {
        "__init__": begin,
        "phase_start": phase_start,
        "step_complete": step_complete,
        "phase_finish": phase_finish,
    }
    made: IProgressMonitorApi = type("Monitor", (base,), methods)()
    return made
