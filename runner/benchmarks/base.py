"""What a benchmark is to the runner: a signature, a data set, an encoding and a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.generation import Generation
    from runner.datasets import Dataset


@dataclass(frozen=True)
class Tensor:
    """A model input or output; None in `shape` stands for the batch."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class Score:
    """An accuracy run judged: `value` in the metric's unit, `line` as accuracy.txt holds it.

    `others` are the values of further metrics by the round's names; `notes` what the value does
    not show.
    """

    metric: str
    value: float
    line: str
    others: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One graph of a model that has several: a file of the model's folder, and its signature."""

    file: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


Infer = Callable[[Mapping[str, "NDArray[Any]"], Sequence[int]], Sequence["NDArray[Any]"]]
"""Runs one graph: feed and places in the data set to outputs, as `Backend.infer`."""

Execute = Callable[
    [Mapping[str, Infer], Mapping[str, "NDArray[Any]"], Sequence[int]], Sequence["NDArray[Any]"]
]
"""Runs a whole model: its graphs by name, feed, places in the data set; to outputs.

Called by several threads at once."""


class Task(Protocol):
    """What a benchmark must have: any object will do, an instance of a class, a class or a module.

    Whatever `Benchmark` describes beside these six it may have too, under the same name.
    """

    @property
    def name(self) -> str:
        """The result folder, and the name by which rounds know it."""
        ...

    @property
    def inputs(self) -> Sequence[Tensor]:
        """What the model takes."""
        ...

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What the model gives."""
        ...

    @property
    def make_dataset(self) -> Callable[[Path | None], Dataset]:
        """Opens the data set in a folder or file; None is the default one."""
        ...

    @property
    def encode(self) -> Callable[[Sequence[NDArray[Any]], int], NDArray[Any] | list[NDArray[Any]]]:
        """Outputs of n samples to what the accuracy log holds of each."""
        ...

    @property
    def score(self) -> Callable[[Path, Dataset], Score]:
        """An accuracy log and its data set to the metric."""
        ...


REQUIRED = ("name", "inputs", "outputs", "make_dataset", "encode", "score")
"""What a `Task` has."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A `Task` and everything else the runner can know of it; nothing else in the runner names one.

    Six attributes are needed: name, inputs, outputs, make_dataset, encode and score.  The others
    describe the benchmark, or make it faster.

    Attributes:
        name: the canonical name and the result folder.
        loadgen_model: the name LoadGen's own configuration is looked up by; "": the name.
        title: what the task is, in a sentence; "": the name.
        metric: name of the accuracy metric, as in the round data.
        inputs, outputs: the model's signature.
        models: weight data type ("fp32", "int8") to ONNX file.
        weights: where the weights come from, for measurements.json.
        data: what the samples are and where they come from, for the README.
        quantization: how the models other than fp32 were made, for the calibration document.
        make_dataset: opens the data set; the argument is a folder or file, None the default.
        encode: model outputs of n samples to what the accuracy log holds: an array of one row
            per sample, or a list of n arrays where their sizes differ; never a view of the
            outputs, which a backend may use again.  Raises InferenceError
            where the outputs have another shape or are not finite.
        answer: outputs that a perfect model would give for these samples, for the dummy backend.
        score: (accuracy log, data set) to the metric.
        verify_scoring: sees that what `score` needs beside the answers is there (a library, a
            tokenizer), before hours are spent on them; raises DatasetError.  None: nothing is.
        empty_answers: whether an answer may be empty, as of a picture in which nothing was found.
        payload_bytes: rough size of one encoded answer, to estimate the log.
        performance_sample_count: samples held in memory in a performance run.
        batch_size: samples in one inference in Offline.
        server_batch_size: most samples in one inference in Server.
        unbatched: backends on which Server is faster without batches, on processors: there
            a batch takes as long as its samples one by one, and the first waits for the last.
        backend_options: by backend name, options that suit this model if the user sets none.
        parts: the graphs of a model that has several; a model is then a folder.
        execute: how the model is run where that is more than calling its one graph (which has the
            name "model"): a decode loop, a graph that takes one sample at a time, outputs that
            need the sample's place.  What it returns is what `encode` gets.
        preparation: preprocessing and label offset in a line, for the README; "" where the
            benchmark has only one, which `data` describes.
        alternatives: what a model that misses the gate may need instead, for the message.
        generation: how a language model's answers are generated; None: no language benchmark.  Such
            a benchmark is run by a streaming backend (see `runner.tokens`), its data set has
            prompts (see `runner.datasets.prompts`), and `encode` and `answer` are not used.
        other_datasets: data sets of runs that need another one, by the run ("accuracy", "TEST07").
        fit: (this, model, data) to the benchmark for that model and data: names, layouts and
            label offsets found in the graph, vocabularies.  None: the signature is fixed.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    make_dataset: Callable[[Path | None], Dataset]
    encode: Callable[[Sequence[NDArray[Any]], int], NDArray[Any] | list[NDArray[Any]]]
    score: Callable[[Path, Dataset], Score]
    loadgen_model: str = ""
    title: str = ""
    metric: str = ""
    models: Mapping[str, Path] = field(default_factory=dict)
    weights: str = "the model file that was named"
    data: str = "the benchmark's own data set"
    quantization: str = (
        "The model was run as given; how it was quantised, if it was, is to be added"
    )
    answer: Callable[[Dataset, Sequence[int]], list[NDArray[Any]]] | None = None
    verify_scoring: Callable[[Dataset], None] | None = None
    empty_answers: bool = False
    payload_bytes: int = 64
    performance_sample_count: int = 1024
    batch_size: int = 32
    server_batch_size: int = 8
    unbatched: tuple[str, ...] = ()
    backend_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    execute: Execute | None = None
    preparation: str = ""
    alternatives: str = ""
    generation: Generation | None = None
    other_datasets: Mapping[str, Callable[[Path | None], Dataset]] = field(default_factory=dict)
    fit: Callable[[Benchmark, Path | None, Path | None], Benchmark] | None = None

    def __post_init__(self) -> None:
        for attribute in ("loadgen_model", "title"):
            if not getattr(self, attribute):
                object.__setattr__(self, attribute, self.name)

    @classmethod
    def of(cls, task: Task) -> Benchmark:
        """The task with a default for what it does not have.

        Raises:
            TypeError: one of the six attributes is absent, or one is of another kind.
        """
        if isinstance(task, cls):
            return task
        absent = [name for name in REQUIRED if not hasattr(task, name)]
        if absent:
            raise TypeError(f"found no {', '.join(absent)}; expected {', '.join(REQUIRED)}")
        has = {f.name: getattr(task, f.name) for f in fields(cls) if hasattr(task, f.name)}
        for name in ("make_dataset", "encode", "score"):
            if not callable(has[name]):
                raise TypeError(f"found {name} = {has[name]}; expected a function")
        for name in ("inputs", "outputs"):
            has[name] = tuple(has[name])
            if not all(isinstance(tensor, Tensor) for tensor in has[name]):
                raise TypeError(f"found {name} = {has[name]}; expected Tensors")
        return cls(**has)

    def dataset_for(self, use: str, path: Path | None) -> Dataset:
        """The data set of a run: "performance", "accuracy", or a compliance test by its name.

        Raises:
            DatasetError: it cannot be opened.
        """
        return self.other_datasets.get(use, self.make_dataset)(path)
