"""What a model's graph says of itself: names, shapes, layout, label offset.

Where the graph does not say, or says it wrongly, a file beside the model does: `resnet50.toml`
beside `resnet50.onnx`, `signature.toml` in a model that is a folder.  It holds `key = value` lines;
each benchmark says which keys it takes.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Execute, Infer, Tensor
from runner.datasets.images import Recipe, Scaling
from runner.errors import BackendError, InferenceError, SettingsError

Layout = Literal["NCHW", "NHWC"]
RECIPE_OPTIONS = (
    "layout", "side", "resize_rule", "resize", "white", "mean", "std", "colour_order",
)  # fmt: skip
"""What a file beside a model of pictures may say of its preprocessing; see docs/models.md."""
_FOLDER_FILE = "signature.toml"


@dataclass(frozen=True)
class Signature:
    """A graph's inputs and outputs, and what was said in the file beside it.

    Attributes:
        path: the model, for messages.
        symbols: names of the sizes that are left open, by tensor name, in order of the axes.
        options: what the file beside the model says.
    """

    path: Path
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    symbols: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Any]
    model: Any

    def input(self, wanted: Callable[[Tensor], bool], what: str, key: str = "input") -> Tensor:
        """The input that the options name, else the only one that is wanted.

        Raises:
            SettingsError: there is none, or several are.
        """
        return self._one(self.inputs, wanted, what, key)

    def output(self, wanted: Callable[[Tensor], bool], what: str, key: str = "output") -> Tensor:
        """The output that the options name, else the first that is wanted."""
        return self._one(self.outputs, wanted, what, key, first=True)

    def _one(
        self,
        tensors: Sequence[Tensor],
        wanted: Callable[[Tensor], bool],
        what: str,
        key: str,
        first: bool = False,
    ) -> Tensor:
        named = self.options.get(key)
        if named is not None:
            fitting = [tensor for tensor in tensors if tensor.name == named]
        else:
            fitting = [tensor for tensor in tensors if wanted(tensor)]
        if len(fitting) == 1 or (fitting and first):
            return fitting[0]
        listed = ", ".join(f"{t.name} {t.dtype} {list(t.shape)}" for t in tensors)
        asked = f"one called {named!r}" if named is not None else what
        raise SettingsError(
            f"{self.path}: found {listed or 'none'}; expected {asked}. Say which it is with "
            f"'{key} = \"NAME\"' in {options_file(self.path)}."
        )

    def option(self, key: str, allowed: Iterable[Any]) -> Any:
        """A value of the options, None where it is not said.

        Raises:
            SettingsError: it is none of `allowed`.
        """
        value = self.options.get(key)
        choices = list(allowed)
        if value is not None and value not in choices:
            raise SettingsError(
                f"{options_file(self.path)}: found {key} = {value!r}; expected one of "
                f"{', '.join(map(repr, choices))}."
            )
        return value


def options_file(model: Path) -> Path:
    """Where what the graph does not say can be written down."""
    return model / _FOLDER_FILE if model.is_dir() else model.with_suffix(".toml")


def read_options(model: Path, known: Iterable[str]) -> Mapping[str, Any]:
    """The file beside a model; empty where there is none.

    Raises:
        SettingsError: it is no TOML, or has a key that is not known.
    """
    path = options_file(model)
    if not path.is_file():
        return {}
    try:
        options = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read ({error}).") from error
    strange = sorted(set(options) - set(known))
    if strange:
        raise SettingsError(
            f"{path}: found {', '.join(strange)}; expected some of {', '.join(sorted(known))}."
        )
    return options


def read_signature(path: Path, options: Mapping[str, Any]) -> Signature:
    """Read a graph without its weights' files.

    Raises:
        BackendError: there is no such file, or it is not an ONNX model.
    """
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
        graph = model.graph
        weights = {weight.name for weight in graph.initializer}
        inputs = [_tensor(value) for value in graph.input if value.name not in weights]
        outputs = [_tensor(value) for value in graph.output]
    except Exception as error:  # protobuf's own, OSError, and what onnx makes of both
        raise BackendError(f"{path}: cannot be read as an ONNX model ({error}).") from error
    symbols = {tensor.name: names for tensor, names in [*inputs, *outputs]}
    return Signature(
        path=path,
        inputs=tuple(tensor for tensor, _ in inputs),
        outputs=tuple(tensor for tensor, _ in outputs),
        symbols=symbols,
        options=options,
        model=model,
    )


def _tensor(value: Any) -> tuple[Tensor, tuple[str, ...]]:
    from onnx import helper

    kind = value.type.tensor_type
    shape: list[int | None] = []
    names = []
    for dim in kind.shape.dim:
        # Some exporters write 0 or -1 for an open size.
        known = dim.HasField("dim_value") and dim.dim_value > 0
        shape.append(dim.dim_value if known else None)
        names.append("" if known else dim.dim_param)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return Tensor(value.name, tuple(shape), str(np.dtype(dtype))), tuple(names)


def image_layout(signature: Signature, tensor: Tensor) -> Layout:
    """Where the three colours are: the option `layout`, else the axis of size 3.

    Raises:
        SettingsError: it cannot be told.
    """
    said = signature.option("layout", ("NCHW", "NHWC"))
    if said == "NCHW" or said == "NHWC":
        return said  # type: ignore[no-any-return] # an option's value is Any
    first, last = tensor.shape[1] == 3, tensor.shape[3] == 3
    if first == last:
        raise SettingsError(
            f"{signature.path}: found input {tensor.name} of shape {list(tensor.shape)}; expected "
            "one axis of 3 colours, the second or the last. Say which with 'layout = "
            f'"NCHW"\' or "NHWC" in {options_file(signature.path)}.'
        )
    return "NCHW" if first else "NHWC"


def _described(recipe: Recipe, signature: Signature) -> Recipe:
    """The recipe with what the file beside the model says of it.

    Raises:
        SettingsError: a value that cannot be.
    """
    options, file = signature.options, options_file(signature.path)
    changed: dict[str, Any] = {}
    rule = signature.option("resize_rule", get_args(Scaling))
    if rule is not None:
        changed["scaling"] = rule
    order = signature.option("colour_order", ("RGB", "BGR"))
    if order is not None:
        changed["order"] = order
    for key in ("side", "resize"):
        if key in options:
            pixels = options[key]
            if not isinstance(pixels, int) or not 1 <= pixels <= 8192:
                raise SettingsError(f"{file}: found {key} = {pixels}; expected 1 to 8,192 pixels.")
            changed[key] = pixels
    white = signature.option("white", (1, 255)) or 255
    # In the file (value * white / 255 - mean) / std, here (value - mean) * scale.
    if "mean" in options:
        changed["mean"] = tuple(x * 255 / white for x in _colours(options["mean"], "mean", file))
    elif "white" in options and "std" not in options:
        changed["scale"] = (white / 255,) * 3
    if "std" in options:
        deviations = _colours(options["std"], "std", file)
        if not all(deviations):
            raise SettingsError(f"{file}: found 0 in std; expected numbers above 0.")
        changed["scale"] = tuple(white / (255 * x) for x in deviations)
    elif "mean" in options:
        changed["scale"] = (white / 255,) * 3
    fitted = replace(recipe, **changed)
    if fitted.scaling != "linear" and fitted.before_cut < fitted.side:
        raise SettingsError(
            f"{file}: found resize = {fitted.before_cut}; expected {fitted.side} (side) or more."
        )
    return fitted


def _colours(value: Any, key: str, file: Path) -> tuple[float, float, float]:
    """Three numbers, or one for all."""
    values = value if isinstance(value, list) else [value] * 3
    numbers = [float(x) for x in values if isinstance(x, (int, float)) and not isinstance(x, bool)]
    if len(values) != 3 or len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise SettingsError(
            f"{file}: found {key} = {value}; expected a number, or three for red, green and blue."
        )
    return numbers[0], numbers[1], numbers[2]


def fit_recipe(recipe: Recipe, signature: Signature, tensor: Tensor) -> Recipe:
    """The preprocessing with the input's name, layout and number format, and what the file beside
    the model says.

    A model that takes uint8 gets the scaled pixels as they are.

    Raises:
        SettingsError: the input has another size, its layout cannot be told, or the file beside the
            model says something that cannot be.
    """
    recipe = _described(recipe, signature)
    if tensor.dtype == "uint8" and {"mean", "std", "white"} & set(signature.options):
        raise SettingsError(
            f"{options_file(signature.path)}: found mean, std or white, but input {tensor.name} "
            "takes uint8; expected none of them: pixels are given as they are."
        )
    fitted = replace(
        recipe,
        layout=image_layout(signature, tensor),
        dtype=tensor.dtype,
        input_name=tensor.name,
    )
    if tensor.dtype == "uint8":
        fitted = replace(fitted, mean=(0.0,) * 3, scale=(1.0,) * 3, whole=True)
    for have, want in zip(tensor.shape[1:], fitted.shape, strict=True):
        if have is not None and have != want:
            raise SettingsError(
                f"{signature.path}: found input {tensor.name} of shape {list(tensor.shape)}; expected "
                f"[any, {', '.join(map(str, fitted.shape))}]."
            )
    return fitted


def label_offset(signature: Signature, labels: Tensor) -> int:
    """1 where class 0 of the model is a background (1001 classes), else 0.

    Told by the option `label_offset`, else by the number of classes: of an output, of what the
    output was chosen from, or of a weight.

    Raises:
        SettingsError: it cannot be told.
    """
    said = signature.option("label_offset", (0, 1))
    if said is not None:
        return int(said)
    sizes = {labels.shape[-1]} if len(labels.shape) == 2 else set()
    sizes |= {t.shape[-1] for t in signature.outputs if len(t.shape) == 2}
    offset = _offset(sizes)
    if offset is None:
        offset = _offset(_chosen_from(signature, labels.name))
    if offset is None:
        offset = _offset({size for w in signature.model.graph.initializer for size in w.dims})
    if offset is None:
        raise SettingsError(
            f"{signature.path}: found no size of 1000 or 1001 (or both) that would say whether "
            f"{labels.name} counts a background as class 0. Say it with 'label_offset = 0' or 1 "
            f"in {options_file(signature.path)}."
        )
    return offset


def _offset(sizes: set[int | None]) -> int | None:
    plain, background = 1000 in sizes, 1001 in sizes
    return None if plain == background else int(background)


def _chosen_from(signature: Signature, name: str) -> set[int | None]:
    """Last sizes of what the node that makes this output (an ArgMax) takes."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(signature.model).graph
    except Exception:  # a custom operator, a file too large: then it is not known
        return set()
    makers = {out: node for node in graph.node for out in node.output}
    shapes = {value.name: _tensor(value)[0].shape for value in [*graph.value_info, *graph.output]}
    sizes: set[int | None] = set()
    while name in makers:
        node = makers[name]
        name = node.input[0] if node.input else ""
        if shapes.get(name):
            sizes.add(shapes[name][-1])
        if node.op_type in ("ArgMax", "TopK"):
            break
    return sizes


def fixed_batch(tensor: Tensor) -> int | None:
    """Samples that the graph takes at a time, None where any number."""
    return tensor.shape[0]


def in_batches(size: int) -> Execute:
    """Runs a graph that takes exactly `size` samples; what is lacking is filled up with the last.

    All outputs must have one row a sample.
    """

    def execute(
        graphs: Mapping[str, Infer], feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        infer, count = graphs["model"], len(indices)
        if count == size:
            return infer(feed, indices)
        parts = []
        for start in range(0, count, size):
            rows = np.minimum(np.arange(start, start + size), count - 1)
            one = {name: array[rows] for name, array in feed.items()}
            # Copied: a backend may use its memory again for the next part.
            parts.append([np.array(out) for out in infer(one, [indices[k] for k in rows])])
        shapes = {tuple(len(out) for out in part) for part in parts}
        if len(shapes) != 1 or set(*shapes) != {size}:
            raise InferenceError(
                f"found outputs of {shapes} rows for batches of {size}; expected one a sample."
            )
        return [np.concatenate(outs)[:count] for outs in zip(*parts, strict=True)]

    return execute


def open_batch(tensor: Tensor) -> Tensor:
    """The same tensor for any number of samples."""
    return replace(tensor, shape=(None, *tensor.shape[1:]))
