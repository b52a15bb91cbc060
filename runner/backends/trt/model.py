"""The ONNX file before TensorRT sees it: its signature, its digest, and its precision."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.backends.trt.onnx_file import ONE_FILE, save
from runner.errors import BackendError

if TYPE_CHECKING:
    from runner.benchmarks.base import Benchmark


@dataclass(frozen=True)
class Prepared:
    """A model ready for the builder.

    Attributes:
        path: the file to parse; another than the user's where it had to be rewritten.
        sha256: of what is parsed, with weights that stand in other files.
        fixed_batch: the batch it was exported with; None where it is dynamic.
        whole: an output is not one row for each sample, as far as its names of dimensions tell.
        precision: what runs: "fp32", "fp16" or "int8".
        notes: what was changed, in sentences.
    """

    path: Path
    sha256: str
    fixed_batch: int | None
    whole: bool
    precision: str
    notes: tuple[str, ...]


def prepare(
    path: Path,
    benchmark: Benchmark,
    precision: str,
    folder: Path,
    calibration: Path | None = None,
) -> Prepared:
    """Check a model against its benchmark, and rewrite it where TensorRT needs it.

    Args:
        precision: one of `plan.PRECISIONS`: "as-is", or what must run; a float32 model is then
            converted, for "int8" and "fp8" by a calibration cache.
        calibration: a calibration cache.
        folder: where a rewritten model is kept, named by its digest.

    Raises:
        BackendError: no such file, no ONNX, another signature, or it cannot be converted.
    """
    import onnx

    from runner.backends.trt.int8 import is_quantized

    try:
        model = onnx.load(str(path))
    except FileNotFoundError as error:
        raise BackendError(
            f"found no file {error.filename or path}; expected an ONNX model of "
            f"{benchmark.name}. Name one with the model option."
        ) from error
    except Exception as error:
        raise BackendError(
            f"{path}: cannot be read as ONNX ({type(error).__name__}: {error})."
        ) from error
    fixed = check_signature(model, benchmark, path)
    whole = has_free_rows(model)
    held = held_precision(model)
    if calibration is not None and (precision not in ("int8", "fp8") or is_quantized(model)):
        raise BackendError(
            f"{calibration}: a calibration cache is for precision int8 or fp8 of a float32 model; "
            f"found precision {precision} and a model in {held}."
        )
    notes = _made(model, held, precision, path, calibration)
    kept = path
    if notes:
        data = model.SerializeToString() if model.ByteSize() < ONE_FILE else b""
        name = hashlib.sha256(data or file_digest(path).encode()).hexdigest()
        kept = folder / f"{path.stem}-{name[:16]}.onnx"
        if not kept.exists():
            save(model, kept)
    return Prepared(
        path=kept,
        sha256=file_digest(kept),
        fixed_batch=fixed,
        whole=whole,
        precision=held_precision(model),
        notes=tuple(notes),
    )


def check_signature(model: Any, benchmark: Benchmark, path: Path) -> int | None:
    """Compare inputs and outputs with the benchmark's.

    Returns:
        The batch that the model was exported with; None where it is dynamic.

    Raises:
        BackendError: a name, shape or type differs, or the batches do among themselves.
    """
    from onnx import helper

    weights = {weight.name for weight in model.graph.initializer}
    batches: set[int | None] = set()
    for what, values, asked in (
        ("inputs", model.graph.input, benchmark.inputs),
        ("outputs", model.graph.output, benchmark.outputs),
    ):
        found = {}
        for value in values:
            if value.name in weights:
                continue
            tensor = value.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
            dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            found[value.name] = (shape, dtype)
        surplus = what == "inputs" and set(found) - {tensor.name for tensor in asked}
        for tensor in asked:
            shape, dtype = found.get(tensor.name, ([], ""))
            fits = len(shape) == len(tensor.shape) and all(
                want is None or have is None or have == want
                for have, want in zip(shape, tensor.shape, strict=True)
            )
            if not fits or dtype != tensor.dtype or surplus:
                listed = ", ".join(f"{n!r} {s} {t}" for n, (s, t) in found.items()) or "none"
                raise BackendError(
                    f"{path}: found {what} {listed}; expected {tensor.name!r} "
                    f"{list(tensor.shape)} {tensor.dtype} (None: the batch). Use a model of "
                    f"{benchmark.name}'s signature."
                )
            if what == "inputs" and None in tensor.shape:
                batches.add(shape[tensor.shape.index(None)])
    if len(batches) > 1:
        raise BackendError(
            f"{path}: found inputs with the batches {sorted(map(str, batches))}; expected the "
            "same in all of them."
        )
    return batches.pop() if batches else None


def has_free_rows(model: Any) -> bool:
    """Whether an output's first dimension has another name than the inputs' (a list of boxes)."""
    weights = {weight.name for weight in model.graph.initializer}

    def names(values: Any) -> set[Any]:
        return {
            dims[0].dim_param or dims[0].dim_value or None
            for value in values
            if value.name not in weights and (dims := value.type.tensor_type.shape.dim)
        }

    return not names(model.graph.output) <= names(model.graph.input)


def file_digest(path: Path) -> str:
    """SHA-256 of a model, with the content of the files its weights stand in."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    digest = hashlib.sha256()
    _add(digest, path)
    model = onnx.load(str(path), load_external_data=False)
    places = {
        entry.value
        for weight in model.graph.initializer
        if uses_external_data(weight)
        for entry in weight.external_data
        if entry.key == "location"
    }
    for place in sorted(places):
        digest.update(place.encode())
        _add(digest, path.parent / place)
    return digest.hexdigest()


def _add(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)


def held_precision(model: Any) -> str:
    """What a model runs in: "fp8" or "int8" where it is quantised, else the type of its weights."""
    from onnx import TensorProto

    from runner.backends.trt.int8 import is_fp8, is_quantized

    if is_quantized(model):
        return "fp8" if is_fp8(model) else "int8"
    types = {weight.data_type for weight in model.graph.initializer}
    if TensorProto.FLOAT16 in types:
        return "fp16"
    return "bf16" if TensorProto.BFLOAT16 in types else "fp32"


def _made(model: Any, held: str, wanted: str, path: Path, calibration: Path | None) -> list[str]:
    """Turn a model into what is wanted, in place; what was done, in sentences."""
    from runner.backends.trt.int8 import to_symmetric

    wanted = {"tf32": "fp32", "as-is": held}.get(wanted, wanted)
    if held in ("int8", "fp8") and wanted == held:
        return to_symmetric(model)
    if held == wanted:
        return []
    if held != "fp32":
        raise BackendError(
            f"{path}: found a model in {held}; expected {wanted}, which is made from a float32 "
            "model. Name that with the model option, or leave the precision as-is."
        )
    if wanted in ("fp16", "bf16"):
        from runner.backends.trt.fp16 import to_bf16, to_fp16

        convert, name = {"fp16": (to_fp16, "float16"), "bf16": (to_bf16, "bfloat16")}[wanted]
        return [f"Converted from float32 to {name}.", *convert(model)]
    if calibration is None:
        raise BackendError(
            f"{path}: found a float32 model; expected {wanted}. Give a quantised model in QDQ form "
            "(assay quantize, onnxruntime.quantization or ModelOpt), or a calibration cache of "
            "this one with the option calibration."
        )
    from runner.backends.trt.calibration import insert, read_cache

    return insert(model, read_cache(calibration), wanted)
