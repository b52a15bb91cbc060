"""The file that describes a measurement: ``assay run --config run.toml``.

Keys are the options of ``assay run`` with the same names, in tables; what is absent has the option's
default. Ranges and descriptions stand at the fields: ``run.schema.json`` is made from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Percent = Annotated[float, Meta(ge=0, lt=100)]
Name = Annotated[str, Meta(min_length=1)]
ScenarioName = Literal["SingleStream", "MultiStream", "Server", "Offline", "Interactive"]


class _Table(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="kebab",
):
    """What all tables have in common."""


class TreeTable(_Table, frozen=True, kw_only=True):
    """Where the result goes."""

    out: Annotated[str, Meta(min_length=1, description="The submission tree.")] | None = None
    round: Annotated[str, Meta(description="Round whose rules and layout apply.")] | None = None
    division: Literal["closed", "open", "network"] = "closed"
    submitter: Name = "Assay"
    system: Annotated[str, Meta(description="Default: from the processor's name.")] | None = None
    system_type: Name = "datacenter,edge"
    overwrite: Annotated[bool, Meta(description="Replace older results.")] = False
    resume: Annotated[
        bool, Meta(description="Keep finished scenarios of the same settings, measure the rest.")
    ] = False


class ModelTable(_Table, frozen=True, kw_only=True):
    """What runs, and on what data."""

    model: Annotated[str, Meta(description="ONNX file, or a folder of graphs.")] | None = None
    precision: Annotated[str, Meta(description="fp32, int8, fp16 or bf16.")] | None = None
    data: Annotated[str, Meta(description="The data set's folder or file.")] | None = None


class LoadTable(_Table, frozen=True, kw_only=True):
    """How much load, for how long."""

    target_qps: Annotated[Positive, Meta(description="Samples per second.")] | None = None
    min_duration: Annotated[Positive, Meta(description="Seconds; default: the round's.")] | None = (
        None
    )
    user_conf: Annotated[str, Meta(description="A user.conf to start from.")] | None = None
    warm_up: Annotated[
        float, Meta(gt=0, le=3600, description="Seconds of warm-up before LoadGen begins.")
    ] = 0.3
    find_qps: Annotated[bool, Meta(description="Search for the highest valid rate.")] = False
    probe_duration: Annotated[Positive, Meta(description="Seconds of a short run.")] = 3.0
    tolerance: Annotated[Percent, Meta(description="Percent to which the rate is found.")] = 5.0
    margin: Annotated[
        Percent, Meta(description="Percent below the rate found, for the full run.")
    ] = 5.0


class ConductTable(_Table, frozen=True, kw_only=True):
    """What belongs to a measurement beside the two runs."""

    compliance: Annotated[bool, Meta(description="Run the compliance tests too.")] = False
    measure_anyway: Annotated[bool, Meta(description="Measure when the gate is missed.")] = False
    grader: Annotated[
        str | None,
        Meta(description="Command that runs the code in answers: docs/measuring-llms.md."),
    ] = None
    early_stop: Annotated[bool, Meta(description="End a run that can only become INVALID.")] = True
    energy: Annotated[
        bool,
        Meta(description="Note energy by RAPL and NVML beside the tree; never a power result."),
    ] = False
    stall_timeout: Annotated[
        float, Meta(gt=0, le=1e6, description="Seconds without progress that end a run.")
    ] = 60.0


class ExecutionTable(_Table, frozen=True, kw_only=True):
    """What executes the model, and how."""

    backend: Annotated[
        str | None,
        Meta(
            description="onnxruntime, openai, tensorrt, kserve, dummy or your own. Default: "
            "onnxruntime; openai for language benchmarks."
        ),
    ] = None
    engine: Annotated[
        str | None, Meta(description="tensorrt: a plan from trtexec in place of one built here.")
    ] = None
    backend_options: Annotated[
        dict[str, Any], Meta(description="Options of the backend by name.")
    ] = {}
    urls: Annotated[list[str], Meta(description="kserve, openai: the servers.")] = []
    providers: Annotated[
        list[str], Meta(description="ONNX Runtime's execution providers, in order.")
    ] = []
    provider_options: Annotated[
        dict[str, dict[str, bool | int | float | str]],
        Meta(description="Options of execution providers, by provider and name."),
    ] = {}
    session_config: Annotated[
        dict[str, bool | int | float | str],
        Meta(description="ONNX Runtime's session config entries."),
    ] = {}
    devices: Annotated[
        list[Annotated[int, Meta(ge=0)]],
        Meta(description="Numbers of the devices to use at once: a session on each."),
    ] = []
    cpus: Annotated[
        str | None, Meta(description="Processors to run on: 0-7,16 or NUMA nodes: node0.")
    ] = None
    threads: Annotated[Count, Meta(description="Threads per inference.")] | None = None
    inter_op_threads: Annotated[
        Count | None, Meta(description="ONNX Runtime: threads for independent branches.")
    ] = None
    spinning: Annotated[bool, Meta(description="Idle threads spin.")] | None = None
    graph_optimization: Literal["disable", "basic", "extended", "all"] | None = None
    io_binding: bool = False
    profile: Annotated[bool, Meta(description="Write ONNX Runtime's profile.")] = False
    workers: Annotated[Count, Meta(description="Inferences at the same time.")] | None = None
    batch: Annotated[Count, Meta(description="Samples per Offline inference.")] | None = None
    max_batch: Annotated[Count, Meta(description="Most samples per Server inference.")] | None = (
        None
    )
    batch_deadline_us: Annotated[
        float, Meta(ge=0, description="Microseconds that a Server query may wait for others.")
    ] = 0.0


class RunFile(_Table, frozen=True, kw_only=True):
    """A whole run file."""

    benchmark: Annotated[str, Meta(min_length=1, description="A name, or your own.")] = "digits"
    scored_as: Annotated[
        str | None, Meta(description="Open division: the round's benchmark it is scored as.")
    ] = msgspec.field(default=None, name="as")
    scenarios: Annotated[
        list[ScenarioName], Meta(description="Default: all of the benchmark.")
    ] = []
    tree: TreeTable = TreeTable()
    model: ModelTable = ModelTable()
    load: LoadTable = LoadTable()
    conduct: ConductTable = ConductTable()
    execution: ExecutionTable = ExecutionTable()


class BadRunFile(ValueError):
    """A run file, or an option, that cannot be; the message names the key."""


def read(text: str) -> RunFile:
    """A run file from its text.

    Raises:
        BadRunFile: it is not TOML, has an unknown key, or a value that cannot be.
    """
    import tomllib

    try:
        return msgspec.convert(tomllib.loads(text), RunFile)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRunFile(f"cannot be read as TOML ({error})") from error
    except msgspec.ValidationError as error:
        raise BadRunFile(_place(str(error))) from error


def write(run_file: RunFile) -> str:
    """The text of a run file; defaults are left out."""
    import tomli_w

    return tomli_w.dumps(msgspec.to_builtins(run_file))


def tables() -> dict[str, type[_Table]]:
    """The tables of a run file by name."""
    kinds = (TreeTable, ModelTable, LoadTable, ConductTable, ExecutionTable)
    return dict(zip(("tree", "model", "load", "conduct", "execution"), kinds, strict=True))


def with_options(run_file: RunFile, options: dict[str, Any]) -> RunFile:
    """The same with single settings changed, whatever table they are in.

    Args:
        options: names as Python has them (`target_qps`, `scored_as`); names are unique across
            tables.

    Raises:
        BadRunFile: there is no such setting, or a value that cannot be.
    """
    homes = dict.fromkeys(("benchmark", "scored_as", "scenarios"), "")
    keys = {"scored_as": "as"}
    for table, kind in tables().items():
        for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
            homes[name], keys[name] = table, key
    content: dict[str, Any] = msgspec.to_builtins(run_file)
    for name, value in options.items():
        if name not in homes:
            import difflib

            near = difflib.get_close_matches(name, homes, 1)
            raise BadRunFile(
                f"found {name!r}, which is not a setting of a run"
                + (f"; did you mean {near[0]!r}?" if near else "")
            )
        home = content.setdefault(homes[name], {}) if homes[name] else content
        home[keys.get(name, name)] = value
    try:
        return msgspec.convert(content, RunFile)
    except msgspec.ValidationError as error:
        raise BadRunFile(_place(str(error))) from error


def _place(message: str) -> str:
    """msgspec's message with the key in front: `load.target-qps: expected …`."""
    text, _, place = message.partition(" - at `$")
    place = place.strip("`").lstrip(".")
    text = f"{text[:1].lower()}{text[1:]}".replace("`", "")
    return f"{place}: {text}" if place else text
