"""Sessions of ONNX Runtime: what they are opened with, and what they say they were opened with.

ONNX Runtime takes an unknown session config entry without a word, and so does its CPU provider an
unknown option. Here both are refused: entries that its library does not contain before anything runs,
options that the provider does not report once the model is loaded. What is written into a result is
read from the session.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.errors import BackendError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
SPINNING = "session.intra_op.allow_spinning"
NO_FALLBACK = "session.disable_cpu_ep_fallback"
Options = Mapping[str, Mapping[str, Any]]
_OWN_OPTION = {SPINNING: "--spinning"}  # entries that an option of ours sets


def provider_name(short: str) -> str:
    """ONNX Runtime's name of a provider: "cpu" and "CPUExecutionProvider" are the same."""
    known = {"cpu": CPU, "cuda": CUDA, "tensorrt": TENSORRT}
    return known.get(short.lower(), short)


def as_text(value: object) -> str:
    """An option as ONNX Runtime spells it: booleans are 1 and 0."""
    return str(int(value)) if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """What a session is opened with.

    Attributes:
        providers: ONNX Runtime's names, in order of preference.
        provider_options: provider to option to value.
        config: session config entries.
        threads, inter_op_threads: 0 leaves the intra-op number to ONNX Runtime (all cores); more than
            one inter-op thread runs independent branches of the graph in parallel.
    """

    providers: Sequence[str] = (CPU,)
    provider_options: Options = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 0
    inter_op_threads: int = 1
    spinning: bool = True
    optimization: str = "all"

    def __post_init__(self) -> None:
        for name, value, meaning in (
            ("threads", self.threads, "0 (all cores) or more"),
            ("inter_op_threads", self.inter_op_threads, "1 or more"),
        ):
            least = 0 if name == "threads" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BackendError(f"found {name}={value}; expected {meaning}.")
        if self.optimization not in LEVELS:
            raise BackendError(
                f"found optimization={self.optimization!r}; expected one of {', '.join(LEVELS)}."
            )
        strangers = [name for name in self.provider_options if name not in self.providers]
        if strangers:
            raise BackendError(
                f"found options of {', '.join(strangers)}; expected options of the providers that are "
                f"used: {', '.join(self.providers)}. Name it with --provider too."
            )
        for entry, option in _OWN_OPTION.items():
            if entry in self.config:
                raise BackendError(f"found session config entry {entry}; expected {option}.")
        if CPU not in self.providers and as_text(self.config.get(NO_FALLBACK, "1")) != "1":
            raise BackendError(
                f"found session config entry {NO_FALLBACK}=0; name cpu after "
                f"{', '.join(self.providers)} to let the CPU run what that cannot."
            )

    def on_device(self, device: int) -> SessionOptions:
        """The same for one device: every provider but the CPU gets its number."""
        options = {
            name: {**self.provider_options.get(name, {}), "device_id": device}
            for name in self.providers
            if name != CPU
        }
        return replace(self, provider_options={**self.provider_options, **options})


def verify_available(providers: Sequence[str]) -> None:
    """Raises BackendError where a provider is not in this build of ONNX Runtime."""
    import onnxruntime

    # get_all_providers() lists what could have been compiled in, not what is there.
    available = onnxruntime.get_available_providers()
    absent = [name for name in providers if name not in available]
    if absent or not providers:
        raise BackendError(
            f"found the execution providers {', '.join(available)}; expected "
            f"{', '.join(providers) or 'none'}. Install the ONNX Runtime build that "
            "has it (for CUDA: onnxruntime-gpu in place of onnxruntime), or choose one that "
            "is there."
        )


def verify_config(entries: Mapping[str, Any]) -> None:
    """Look the entries up among the texts of the installed libraries.

    Raises:
        BackendError: an entry that no library of this version reads.
    """
    unknown = set(entries)
    for library in _libraries():
        if not unknown:
            return
        with library.open("rb") as stream:
            if library.stat().st_size == 0:
                continue
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                unknown = {e for e in unknown if data.find(b"\0" + e.encode() + b"\0") < 0}
    if unknown and _libraries():
        import onnxruntime

        raise BackendError(
            f"found session config {_entries(sorted(unknown))}, which ONNX Runtime "
            f"{onnxruntime.__version__} does not have; it would be ignored. The names are in "
            "onnxruntime_session_options_config_keys.h."
        )


def _entries(names: Sequence[str]) -> str:
    return f"{'entry' if len(names) == 1 else 'entries'} {', '.join(names)}"


def _libraries() -> list[Path]:
    """The shared libraries of the installed ONNX Runtime, the providers' own among them."""
    import onnxruntime

    folder = Path(onnxruntime.__file__).parent / "capi"
    found = {
        path
        for pattern in ("*.so", "*.so.*", "*.pyd", "*.dll", "*.dylib")
        for path in folder.glob(pattern)
    }
    return sorted(found, key=lambda path: -path.stat().st_size)


def open_session(options: SessionOptions, model: Path, profile: Path | None = None) -> Any:
    """A session on this model, on these providers and with these options; never on others.

    Args:
        profile: the beginning of the profile's path; None: no profile.

    Raises:
        BackendError: ONNX Runtime refuses, or opened it with something else.
    """
    import onnxruntime

    asked = onnxruntime.SessionOptions()
    asked.intra_op_num_threads = options.threads
    asked.inter_op_num_threads = options.inter_op_threads
    if options.inter_op_threads > 1:
        asked.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    asked.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, LEVELS[options.optimization]
    )
    entries = {SPINNING: options.spinning, **options.config}
    if CPU not in options.providers:
        # Else nodes that the provider cannot run would go to the CPU without a word.
        entries[NO_FALLBACK] = True
    for name, value in entries.items():
        asked.add_session_config_entry(name, as_text(value))
    if profile is not None:
        asked.enable_profiling = True
        asked.profile_file_prefix = str(profile)
    asked.log_severity_level = 3
    providers = [
        (name, {k: as_text(v) for k, v in options.provider_options.get(name, {}).items()})
        for name in options.providers
    ]
    try:
        # Without the fallback: it prints, and opens the model a second time on another provider.
        session = onnxruntime.InferenceSession(
            str(model), asked, providers=providers, enable_fallback=0
        )
    except Exception as error:
        raise BackendError(
            f"{model}: ONNX Runtime {onnxruntime.__version__} cannot load it: {error}"
            + (
                f" Name cpu too, after {', '.join(options.providers)}, to let the CPU run what "
                "that cannot; the system description then says so."
                if "fallback" in str(error)
                else ""
            )
        ) from error
    session.disable_fallback()
    verify_providers(options.providers, session.get_providers())
    for name, given in options.provider_options.items():
        verify_options(name, given, session.get_provider_options().get(name, {}))
    return session


def verify_providers(asked: Sequence[str], got: Sequence[str]) -> None:
    """Raises BackendError where a provider did not start.

    The runtime appends the CPU for what others cannot do; a provider that failed to start is simply
    gone from its list.
    """
    if list(got[: len(asked)]) != list(asked):
        raise BackendError(
            f"found a session on {', '.join(got)}; expected {', '.join(asked)}. "
            "The provider did not start: look at its driver and libraries; a result must not "
            "come from another device than the one named."
        )


def verify_options(provider: str, asked: Mapping[str, Any], reported: Mapping[str, str]) -> None:
    """Compare a provider's options with those that it reports.

    Raises:
        BackendError: it has no such option, or did not take the value.
    """
    if not reported and provider != CPU:
        return  # it reports none at all: see `unverified`
    unknown = [name for name in asked if name not in reported]
    if unknown and not reported:
        raise BackendError(f"found option {', '.join(unknown)} of {provider}, which has none.")
    if unknown:
        raise BackendError(
            f"found option {', '.join(unknown)} of {provider}; expected some of "
            f"{', '.join(sorted(reported))}."
        )
    for name, value in asked.items():
        if not _same(as_text(value), reported[name]):
            raise BackendError(
                f"found {name}={reported[name]} in {provider}; expected {name}={as_text(value)}. The "
                "provider did not take the value: look up what it allows."
            )


def _same(asked: str, reported: str) -> bool:
    words = {"true": "1", "false": "0"}
    asked, reported = (words.get(text.lower(), text) for text in (asked, reported))
    try:
        return float(asked) == float(reported)
    except ValueError:
        return asked == reported


def unverified(options: SessionOptions, session: Any) -> list[str]:
    """What the result must say of options that their provider does not report."""
    reported = session.get_provider_options()
    return [
        f"{name} does not report its options: that {_listed(given)} took effect was not verified"
        for name, given in options.provider_options.items()
        if given and not reported.get(name)
    ]


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={as_text(value)}" for name, value in options.items())


def on_processors(options: Mapping[str, Any]) -> bool:
    """Whether options of the backend name no other provider than the CPU's."""
    names = options.get("providers") or (CPU,)
    return all(provider_name(str(n)) == CPU for n in ([names] if isinstance(names, str) else names))


def weight_types(options: Mapping[str, Any]) -> list[str]:
    """Types to which the TensorRT provider may convert FP32 weights, by the backend's options."""
    found = []
    for name, given in (options.get("provider_options") or {}).items():
        if provider_name(name) == TENSORRT:
            wanted = {k for k, v in given.items() if as_text(v).lower() in ("1", "true")}
            found += [kind for kind in ("fp16", "bf16", "int8") if f"trt_{kind}_enable" in wanted]
    return found


def statement(options: SessionOptions, sessions: Sequence[Any], *more: str) -> str:
    """What executes, in one line, as the sessions report it.

    Args:
        sessions: one for each device.
        more: what else belongs in the line.
    """
    import onnxruntime

    got = sessions[0].get_session_options()
    parts = []
    for name in options.providers:
        given = options.provider_options.get(name, {})
        shown = {
            option: _each([s.get_provider_options().get(name, {}).get(option) for s in sessions])
            for option in given
        }
        known = {k: v if v is not None else as_text(given[k]) for k, v in shown.items()}
        parts.append(f"{name} with {_listed(known)}" if known else name)
    count = got.intra_op_num_threads
    parts.append(f"{count or 'default'} intra-op thread{'' if count == 1 else 's'}")
    if got.inter_op_num_threads != 1:
        parts.append(f"{got.inter_op_num_threads} inter-op threads")
    spins = got.get_session_config_entry(SPINNING) == "1"
    parts.append("spinning" if spins else "no spinning")
    level = next(n for n, text in LEVELS.items() if got.graph_optimization_level.name == text)
    parts.append(f"graph optimization {level}")
    parts += [f"{entry}={got.get_session_config_entry(entry)}" for entry in options.config]
    return f"ONNX Runtime {onnxruntime.__version__} ({', '.join((*parts, *more))})"


def _each(values: Sequence[str | None]) -> str | None:
    """One value where all sessions have the same, else each."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    return " and ".join(known) or None
