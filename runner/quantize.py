"""Static INT8 quantisation with a benchmark's calibration samples, judged by its own metric.

The model gets QuantizeLinear/DequantizeLinear pairs (QDQ): symmetric INT8 weights, one scale a
channel, and symmetric INT8 activations, which is the form that every execution provider and
TensorRT read alike.  ONNX Runtime's kernels for x86 are made for UINT8 activations with a zero
point, where the limits of ReLU and ReLU6 are those of the type, so that no operator is left for them.
Ranges come from the calibration samples, never from those that score.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.backends import open_backend
from runner.benchmarks import open_benchmark
from runner.benchmarks.base import Benchmark, Score
from runner.benchmarks.signature import options_file
from runner.datasets import Dataset
from runner.errors import BackendError, DatasetError, OutputError, SettingsError
from schemas.machine import MachineFault
from schemas.scratch import scratch_folder, temporary_files_in
from schemas.writing import write_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

Say = Callable[[str], None]


@dataclass(frozen=True)
class Quantized:
    """What came of it.

    `calibrated`: samples the ranges come from; `quantized`, `operators`: nodes with quantised
    inputs, and all nodes of the model; `before`, `after`: the accuracy of both models; `cut_off`:
    this processor adds INT8 products in 16 bits, so that `after` may be lower than on others.
    """

    model: Path
    out: Path
    calibrated: int
    quantized: int
    operators: int
    before: Score
    after: Score
    cut_off: bool = False

    def text(self, gate: float | None, round: str | None) -> str:
        """The outcome in a few lines, held against the round's gate where there is one."""
        size = self.out.stat().st_size / self.model.stat().st_size
        lines = [
            f"{self.out}: {self.quantized} of {self.operators} operators in INT8, "
            f"{size:.0%} of the size, ranges from {self.calibrated} samples",
            f"{self.before.metric}: {self.before.value:.6g} before, {self.after.value:.6g} after "
            f"({_share(self.after.value, self.before.value)} of it)",
        ]
        if gate is not None:
            margin = self.after.value - gate
            said = "met" if margin >= 0 else "missed"
            lines.append(f"gate of round {round}: {gate:.6g}, {said} by {abs(margin):.4g}")
        if self.cut_off and self.after.value < self.before.value:
            lines.append(
                "this processor has no VNNI: its sums of 8-bit products are cut off at 16 bits, which "
                "costs accuracy here and not elsewhere; --reduce-range makes weights of 7 bits, which "
                "are the same everywhere"
            )
        return "\n".join(lines) + "\n"


def _share(after: float, before: float) -> str:
    return f"{after / before:.2%}" if before else "all"


def quantize(
    model: Path,
    benchmark: str,
    out: Path,
    *,
    calibration: int | None = None,
    calibration_list: Path | None = None,
    op_types: Sequence[str] = (),
    exclude: Sequence[str] = (),
    method: str = "minmax",
    reduce_range: bool = False,
    activations: str = "int8",
    data: Path | None = None,
    overwrite: bool = False,
    say: Say = lambda text: None,
) -> Quantized:
    """Quantise a model and score both.

    Args:
        model: the FP32 model, of the benchmark's signature.
        calibration: how many samples; None: all of the calibration list.
        calibration_list: samples of the data set, one a line, by index or by file name in the first column, where the
            data set has no calibration samples of its own, or others are wanted.
        op_types: operators to quantise; empty: all that can be.
        exclude: names of nodes to leave alone; * is a wildcard.
        method: "minmax", "percentile" or "entropy".
        reduce_range: weights of 7 bits, whose products no processor's 16-bit sums cut off.
        activations: "int8" (symmetric) or "uint8" (with a zero point).

    Raises:
        BackendError: the model cannot be read or quantised.
        DatasetError: there are no calibration samples.
        SettingsError, OutputError: an argument, or the file to be written, is not as asked.
    """
    if not model.is_file():
        raise BackendError(f"found no model file at {model}; expected one ONNX file.")
    task = open_benchmark(benchmark, model, data)
    if out.exists() and not overwrite:
        raise OutputError(
            f"{out}: found a file there already; choose another name or replace it (--overwrite)."
        )
    if out.resolve() == model.resolve():
        raise OutputError(f"{out}: is the model itself; expected another file.")
    dataset = task.make_dataset(data)
    say("scoring the model")
    before = accuracy(task, model, dataset)
    feeds, count = _calibration(task, dataset, calibration, calibration_list)
    say(f"calibrating with {count} samples")
    quantized, operators = _quantize(
        model, out, feeds, op_types, exclude, method, reduce_range, activations
    )
    _keep_options(model, out, overwrite)
    say("scoring the quantised model")
    # Opened again, as a run will open it: with the file beside the new model, not the old one's.
    after = accuracy(open_benchmark(benchmark, out, data), out, dataset)
    cut_off = not reduce_range and not has_vnni()
    return Quantized(
        model=model,
        out=out,
        calibrated=count,
        quantized=quantized,
        operators=operators,
        before=before,
        after=after,
        cut_off=cut_off,
    )


def _keep_options(model: Path, out: Path, overwrite: bool) -> None:
    """Copy the file beside the model (preprocessing, label offset): without it the quantised model
    would be fed other images than those its ranges come from."""
    source, target = options_file(model), options_file(out)
    if not source.is_file() or source.resolve() == target.resolve():
        return
    try:
        content = source.read_bytes()
        if target.exists() and not overwrite and target.read_bytes() != content:
            raise OutputError(
                f"{target}: found other settings than in {source}; choose another name for the "
                "quantized model or replace them (--overwrite)."
            )
        write_file(target, content)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror or error}).") from error


def accuracy(benchmark: Benchmark, model: Path, dataset: Dataset) -> Score:
    """Score a model on the whole data set, with the benchmark's own encoding and metric."""
    options = benchmark.backend_options.get("onnxruntime", {})
    backend = open_backend(benchmark, "onnxruntime", dict(options))
    backend.load(benchmark, model, dataset)
    entries = []
    step = benchmark.batch_size
    for start in range(0, len(dataset), step):
        indices = range(start, min(start + step, len(dataset)))
        answers = benchmark.encode(backend.infer(dataset.load(indices), indices), len(indices))
        dataset.unload(indices)
        for index, answer in zip(indices, answers, strict=True):
            data = answer.tobytes().hex().upper()
            entries.append({"seq_id": index, "qsl_idx": index, "data": data})
    backend.close()
    with scratch_folder("assay-scores-") as folder:
        log = folder / "mlperf_log_accuracy.json"
        log.write_text(json.dumps(entries), encoding="utf-8")
        return benchmark.score(log, dataset)


def _calibration(
    benchmark: Benchmark, dataset: Dataset, count: int | None, listed: Path | None
) -> tuple[Iterator[Mapping[str, NDArray[Any]]], int]:
    """Model inputs to calibrate with, one sample each, and how many."""
    if listed is not None:
        indices = _indices(listed, dataset)[:count]
        return ({**dataset.load([index])} for index in indices), len(indices)
    samples = getattr(dataset, "calibration_inputs", None)
    if samples is None:
        raise DatasetError(
            f"found no calibration samples in the data set of {benchmark.name}; expected a list "
            "of sample indices, one a line (--calibration-list). Ranges must not be taken from "
            "the samples that score unless the round's calibration list names them."
        )
    inputs: Mapping[str, NDArray[Any]] = samples()
    held = min((len(array) for array in inputs.values()), default=0)
    wanted = min(held, count or held)
    if not wanted:
        raise DatasetError(f"found no calibration samples in the data set of {benchmark.name}.")
    return (
        ({name: array[k : k + 1] for name, array in inputs.items()} for k in range(wanted)),
        wanted,
    )


def _indices(path: Path, dataset: Dataset) -> list[int]:
    """Sample indices of a calibration list: indices, or names of the data set's files."""
    total = len(dataset)
    places = {file.name: index for index, file in enumerate(getattr(dataset, "paths", ()))}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        indices = [_index(line, places) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path}: cannot be read as a calibration list ({error}); expected one sample a line, "
            f"its index{' or the name of a file of the data set' if places else ''}."
        ) from error
    if not indices or not all(0 <= index < total for index in indices):
        raise SettingsError(
            f"{path}: found {len(indices)} indices; expected some from 0 to {total - 1}."
        )
    return indices


def _index(line: str, places: Mapping[str, int]) -> int:
    """The sample that a line names: an index alone, or a file, behind which published lists
    (cal_map.txt) have its label. Raises ValueError."""
    first, *rest = line.split()
    if first in places and len(rest) <= 1:
        return places[first]
    if rest:
        raise ValueError(f"line {line.strip()[:80]!r} names more than one sample")
    return int(first)


def has_vnni() -> bool:
    """Whether this processor adds INT8 products in 32 bits; True where it cannot be told."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), None)
    # No "flags" line: not x86, and Arm's kernels have no such sums.
    return flags is None or bool({"avx512_vnni", "avx_vnni", "amx_int8"} & set(flags))


def _quantize(
    model: Path,
    out: Path,
    feeds: Iterator[Mapping[str, NDArray[Any]]],
    op_types: Sequence[str],
    exclude: Sequence[str],
    method: str,
    reduce_range: bool,
    activations: str,
) -> tuple[int, int]:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Mapping[str, NDArray[Any]] | None:
            return next(feeds, None)

    methods = {
        "minmax": quantization.CalibrationMethod.MinMax,
        "percentile": quantization.CalibrationMethod.Percentile,
        "entropy": quantization.CalibrationMethod.Entropy,
    }
    if method not in methods:
        raise SettingsError(f"found method {method!r}; expected one of {', '.join(methods)}.")
    kinds = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}
    if activations not in kinds:
        raise SettingsError(f"found activations {activations!r}; expected {' or '.join(kinds)}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    level = logging.getLogger().level
    try:
        logging.getLogger().setLevel(logging.ERROR)
        # The percentile and entropy methods print what they do; standard output is the report's.
        with (
            scratch_folder("assay-quantize-") as folder,
            temporary_files_in(folder),  # ONNX Runtime's own
            contextlib.redirect_stdout(io.StringIO()),
        ):
            prepared = folder / "prepared.onnx"
            # Shapes and folded constants first: without them batch norms stay apart.
            quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
            names = [node.name for node in onnx.load(prepared).graph.node]
            left = [n for n in names if any(fnmatch.fnmatch(n, glob) for glob in exclude)]
            unknown = [glob for glob in exclude if not fnmatch.filter(names, glob)]
            if unknown:
                raise SettingsError(
                    f"found no node named {', '.join(unknown)}; the model has {', '.join(names)}."
                )
            made = folder / "quantized.onnx"
            quantization.quantize_static(
                str(prepared),
                str(made),
                Reader(),
                quant_format=quantization.QuantFormat.QDQ,
                op_types_to_quantize=list(op_types) or None,
                nodes_to_exclude=left or None,
                per_channel=True,
                reduce_range=reduce_range,
                activation_type=kinds[activations],
                weight_type=quantization.QuantType.QInt8,
                calibrate_method=methods[method],
                extra_options={
                    "ActivationSymmetric": activations == "int8",
                    "WeightSymmetric": True,
                },
            )
            done = onnx.load(made)
            write_file(out, made.read_bytes())
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error}).") from error
    except (SettingsError, MachineFault):
        raise
    except Exception as error:
        raise BackendError(f"{model}: ONNX Runtime cannot quantise it: {error}") from error
    finally:
        logging.getLogger().setLevel(level)
    made_by = {name: node for node in done.graph.node for name in node.output}
    nodes = [n for n in done.graph.node if n.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    quantized = sum(
        1
        for node in nodes
        if any(i in made_by and made_by[i].op_type == "DequantizeLinear" for i in node.input)
    )
    return quantized, len(nodes)
