"""Canonical names of accelerators and processors, from ``hardware.toml``.

Submitters spell one card in many ways; what compares systems needs one name. A name that no pattern
knows is kept as it is written: nothing is guessed.
"""

from __future__ import annotations

import functools
import re

import msgspec

from schemas.compiling import HERE, compiled
from schemas.hardware_file import Hardware, Pattern, parse_hardware


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What a name says.

    name: ``vendor model`` where the name is known, else the name as written, cleaned.
    form: SXM, PCIe, OAM, …; None where the name does not say. memory_gb: gigabytes of one device.
    partition: how the device is a part of a card; None: a whole one. count: a number of devices
    that stands inside the name ("(x87)"). mixed: several models in one system. raw: as written.
    """

    name: str
    vendor: str | None = None
    model: str | None = None
    form: str | None = None
    memory_gb: int | None = None
    partition: str | None = None
    count: int | None = None
    mixed: bool = False
    raw: str = ""

    @property
    def known(self) -> bool:
        """Whether a pattern knows the name."""
        return self.model is not None

    @property
    def label(self) -> str:
        """The name with form, memory and partition, as far as they are known."""
        parts = [self.name]
        if self.form:
            parts.append(self.form)
        if self.memory_gb and self.known:
            parts.append(f"{self.memory_gb} GB")
        if self.partition:
            parts.append(f"({self.partition})")
        return " ".join(parts)


@functools.cache
def hardware() -> Hardware:
    """The table of this version. Raises ValueError where the file is not well formed."""
    made = compiled()
    if made is not None:
        return msgspec.msgpack.decode(made.hardware, type=Hardware)
    return parse_hardware((HERE / "hardware.toml").read_text(encoding="utf-8"))


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    # Of a hundred patterns a check of one round needs a few: each is compiled when it is reached.
    return re.compile(text, re.IGNORECASE)


_MARKS = re.compile(r"®|™|\((?:R|TM|C)\)", re.IGNORECASE)
_COUNT = re.compile(r"\(x ?(\d{1,5})\)|^(\d{1,5}) ?x ", re.IGNORECASE)
_MEMORY = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,20})?)\s?-?(TB|GB|GiB|G|MiB|MB)\b", re.IGNORECASE)
_FORMS = (
    (re.compile(r"\bSXM\d?\b", re.IGNORECASE), "SXM"),
    (re.compile(r"\bNVL\d*\b", re.IGNORECASE), "NVL"),
    (re.compile(r"\bPCI-?e\b|\bHHHL\b|\bFHFL\b", re.IGNORECASE), "PCIe"),
    (re.compile(r"\bOAM\b", re.IGNORECASE), "OAM"),
    (re.compile(r"\bDM\.2e?\b", re.IGNORECASE), "DM.2"),
    (re.compile(r"\bM\.2\b", re.IGNORECASE), "M.2"),
)
_NAME_LIMIT = 300


def _plain(name: str) -> str:
    """The name with one kind of blank, without marks of registration and underscores."""
    text = _MARKS.sub(" ", name[:_NAME_LIMIT]).replace("_", " ")
    return " ".join(text.split())


@functools.lru_cache(maxsize=4096)
def accelerator(name: str, memory: str | None = None) -> Device | None:
    """The accelerator that ``accelerator_model_name`` means; None where the system has none.

    memory: ``accelerator_memory_capacity``, used where the name does not state the size.
    """
    text = _plain(name)
    if any(re.search(pattern, text, re.IGNORECASE) for pattern in hardware().absent):
        return None
    partition = None
    for entry in hardware().partition:
        found = re.search(entry.pattern, text, re.IGNORECASE)
        if found:
            size = next((group for group in found.groups() if group), None)
            partition = entry.name if size is None else f"{entry.name} {size}"
            text = " ".join((text[: found.start()] + " " + text[found.end() :]).split())
            break
    counted = _COUNT.search(text)
    count = int(next(group for group in counted.groups() if group)) if counted else None
    if counted:
        text = _COUNT.sub(" ", text).strip()
    # "A30x4" is four A30.
    text = re.sub(r"(?<=[0-9A-Za-z])x\d{1,3}\b", "", text)
    models = _models(text)
    form = next((form for pattern, form in _FORMS if pattern.search(text)), None)
    if not models:
        return Device(name=text, form=form, partition=partition, count=count, raw=name)
    if len(models) > 1:
        joined = " + ".join(f"{vendor} {model}" for vendor, model, _ in models)
        return Device(name=joined, vendor="mixed", model=joined, mixed=True, raw=name)
    ((vendor, model, known),) = models
    return Device(
        name=f"{vendor} {model}",
        vendor=vendor,
        model=model,
        form=known.form or form,
        memory_gb=known.memory_gb or gigabytes(text) or gigabytes(memory or ""),
        partition=partition,
        count=count,
        raw=name,
    )


def near_accelerator(name: str) -> str | None:
    """The canonical accelerator that a name nearly spells; None where there is none.

    >>> near_accelerator("NVIDIA GB20O")
    'NVIDIA GB200'
    """
    import difflib

    known = {
        f"{entry.vendor} {entry.model}": None
        for entry in hardware().accelerator
        if "\\" not in entry.model
    }
    folded = {key.casefold(): key for key in known}
    near = difflib.get_close_matches(name.casefold(), folded, 1, cutoff=0.85)
    return folded[near[0]] if near else None


def _models(text: str) -> list[tuple[str, str, Pattern]]:
    """Each different model that a name lists, in the order of the list."""
    # "A100 …, A30 …" lists two; "Processor: HVX, HTA" lists units of one.
    found: dict[str, tuple[str, str, Pattern]] = {}
    for piece in [*re.split(r"[,;+]| and ", text), text]:
        match = _first(piece, "accelerator")
        if match is not None and (piece != text or not found):
            found.setdefault(match[1], match)
    return list(found.values())


def _first(text: str, kind: str) -> tuple[str, str, Pattern] | None:
    entries: list[Pattern] = getattr(hardware(), kind)
    for entry in entries:
        match = _pattern(entry.pattern).search(text)
        if match:
            model = entry.model
            for number, group in enumerate(match.groups(), 1):
                model = model.replace(f"\\{number}", group or "")
            return entry.vendor, " ".join(model.split()), entry
    return None


def gigabytes(text: str) -> int | None:
    """The memory size that a text states, in whole gigabytes; None where it states none.

    >>> gigabytes("80 GB"), gigabytes("81559 MiB"), gigabytes("23.64 GB"), gigabytes("shared")
    (80, 80, 24, None)
    """
    match = _MEMORY.search(text)
    if match is None:
        return None
    factor = {"t": 1024.0, "m": 1 / 1024}.get(match[2][0].lower(), 1.0)
    size = round(float(match[1]) * factor)
    return size if 0 < size < 100_000 else None


@functools.lru_cache(maxsize=4096)
def processor(name: str) -> Device | None:
    """The processor that ``host_processor_model_name`` means; None where the name is empty."""
    text = _plain(name)
    if any(re.search(pattern, text, re.IGNORECASE) for pattern in hardware().absent):
        return None
    match = _first(text, "processor")
    if match is None:
        return Device(name=text, raw=name)
    vendor, model, _ = match
    return Device(name=f"{vendor} {model}", vendor=vendor, model=model, raw=name)


_PRECISION = re.compile(
    r"nvfp4|mxfp4|fp4|float4|fp8|float8|e4m3|e5m2|bf16|bfloat16|fp16|float16|half|tf32|fp32|float32"
    r"|float|uint8|int8|int4|int16|int32|int3|binary",
    re.IGNORECASE,
)
_SPELLED = {
    "nvfp4": "fp4",
    "mxfp4": "fp4",
    "float4": "fp4",
    "float8": "fp8",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "uint8": "int8",
}
"""Spellings that mean another one: a signed and an unsigned byte, an FP4 by any name."""


def precision(weights: str) -> str:
    """The set of number formats that ``weight_data_types`` names, fewest bits first.

    >>> precision("int8,fp16"), precision("nvfp4 (E2M1 4-bit + FP8 block scales)"), precision("")
    ('int8+fp16', 'fp4+fp8', 'not stated')
    """
    found = {_SPELLED.get(m.lower(), m.lower()) for m in _PRECISION.findall(weights[:500])}
    if not found:
        return "not stated"

    def bits(name: str) -> tuple[int, str]:
        digits = re.search(r"\d+", name)
        return (int(digits[0]) if digits else 1, name)

    return "+".join(sorted(found, key=bits))
