"""Family N: the network division: LoadGen and the system are joined by a network."""

from __future__ import annotations

from collections.abc import Iterator

from checker.model import AccuracyRun, PerformanceRun, Submitter, System
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.structure import MAX_HINTS, listed, nearest
from schemas.round import Round

NETWORK_SUT = "Network SUT"
_FABRICS = ("ethernet", "802.11", "wifi", "wi-fi", "wlan", "infiniband", "3gpp", "lte", "4g", "5g")
_ROUND_TRIP_NS = 10_000
"""The shortest time that a name can take over a network and back."""


def has_network(round: Round) -> bool:
    """Whether the round knows the network division."""
    return "network" in round.divisions


def _document(system: System) -> Document:
    document = system.document
    if document is None or not isinstance(document.value, dict):
        raise NotJudged
    return document


@rule("N101", ERROR, divisions=("closed", "network"), when=has_network, needs="document")
def network_claimed(system: System, round: Round) -> Iterator[Problem]:
    """is_network is true in the network division and only there.

    Why: a system behind a network is another system than one that LoadGen calls directly.
    Fix: set is_network to true or false, or move the submission to the division it belongs to.
    Source: submission_rules.adoc, "System description": is_network.
    """
    document = _document(system)
    claimed = system.is_network
    wanted = system.division == "network"
    written = document.fields.get("is_network")
    readable = claimed is not None or written is None
    if readable and bool(claimed) == wanted:
        return
    expected = "true" if wanted else "false, or no such field"
    yield Problem(
        f"is_network is {'absent' if 'is_network' not in document.fields else repr(written)}, the "
        f"{system.division} division asks for {expected}",
        path=document.path, line=document.line_of("is_network"), pointer="/is_network",
        found=written,
        required=wanted, severity=None if system.has_results and (readable or wanted) else WARNING,
    )  # fmt: skip


@rule("N102", ERROR, when=has_network, needs="document")
def network_fields(system: System, round: Round) -> Iterator[Problem]:
    """A system behind a network has the fields that describe the network.

    Why: its results depend on the network as much as on the system.
    Fix: add the field to systems/<system>.json.
    Source: submission_rules.adoc, "System description": network division.
    """
    document = _document(system)
    if system.division != "network" and system.is_network is not True:
        raise NotJudged
    fields = document.fields
    known = {*round.system_description.required, *round.system_description.network}
    unknown = [key for key in fields if key not in known][:MAX_HINTS]
    for key in round.system_description.network:
        # That is_network itself is missing is said by network-claimed.
        if key not in fields and key != "is_network":
            near = nearest(key, unknown, 0.85)
            hint = f"; was it meant by {near}?" if near else ""
            yield Problem(
                f"{document.path} has no field {key}{hint}", path=document.path,
                line=document.line_of(near) if near else None, pointer=f"/{key}", found=near,
                required=key,
                severity=None if system.has_results else WARNING,
            )  # fmt: skip
        elif fields.get(key) in ("", None, [], {}) and key != "is_network":
            yield Problem(
                f"{key} is empty", path=document.path, line=document.line_of(key),
                pointer=f"/{key}",
                found=fields.get(key), required="a meaningful response", severity=WARNING,
            )  # fmt: skip


@rule("N103", WARNING, divisions=("network",), needs="document")
def network_datacenter(system: System, round: Round) -> Iterator[Problem]:
    """A system in the network division is a datacenter system.

    Why: the division was made for datacenter systems; its scenarios are theirs.
    Fix: set system_type to datacenter, or submit in the closed or open division.
    Source: inference_rules.adoc, "Network division".
    """
    document = _document(system)
    if system.category is not None and system.category != "datacenter":
        yield Problem(
            f"system_type is {system.category}, the network division is for datacenter systems",
            path=document.path, line=document.line_of("system_type"), pointer="/system_type",
            found=system.category, required="datacenter",
        )  # fmt: skip


@rule("N104", WARNING, divisions=("network",), needs="document")
def network_fabric(system: System, round: Round) -> Iterator[Problem]:
    """The network is one of those that the division permits.

    Why: a private link between two machines is no network in the sense of the rules.
    Fix: name the fabric in network_type: Ethernet, 802.11, InfiniBand or 3GPP.
    Source: inference_rules.adoc, "Network division": permitted fabrics.
    """
    document = _document(system)
    found = document.fields.get("network_type")
    if not isinstance(found, str) or not found.strip():
        raise NotJudged
    if not any(name in found.lower() for name in _FABRICS):
        yield Problem(
            f"network_type is {found[:100]!r}; permitted are Ethernet, 802.11, InfiniBand and 3GPP",
            path=document.path, line=document.line_of("network_type"), pointer="/network_type",
            found=found[:100], required="Ethernet, 802.11, InfiniBand, 3GPP",
        )  # fmt: skip


@rule("N105", ERROR, divisions=("network",), needs="detail")
def network_sut_name(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """The system under test calls itself a Network SUT.

    Why: the name, asked for over the network, shows that the queries took that way.
    Fix: let the remote system answer with a name that contains "Network SUT", and run again.
    Source: inference_rules.adoc, "Network division": SUT name.
    """
    detail = run.detail
    if detail is None or not detail:
        raise NotJudged
    name = detail.text("sut_name")
    if name is None or NETWORK_SUT not in name:
        yield Problem(
            f"sut_name is {name!r}, a name with {NETWORK_SUT!r} in it was asked for",
            path=run.detail_path,
            line=detail.line("sut_name"), found=name, required=NETWORK_SUT,
        )  # fmt: skip


@rule("N106", NOTE, divisions=("network",), needs="detail")
def network_name_took_time(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Asking the system for its name took as long as a way over a network and back.

    Why: a name that comes at once was not asked for over the network.
    Fix: forward the call of Name() to the remote system.
    Source: inference_rules.adoc, "Network division": SUT name; LoadGen's get_sut_name_duration_ns.
    """
    detail = run.detail
    took = detail.number("get_sut_name_duration_ns") if detail is not None else None
    if detail is None or took is None:
        raise NotJudged
    if took < _ROUND_TRIP_NS:
        yield Problem(
            f"get_sut_name_duration_ns is {took:g} ns, a network takes at least about "
            f"{_ROUND_TRIP_NS} ns",
            path=run.detail_path, line=detail.line("get_sut_name_duration_ns"), found=took,
            required=_ROUND_TRIP_NS,
        )  # fmt: skip


@rule("N107", NOTE, divisions=("network",))
def network_documents(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A network submission includes the query dispatch library's source and a diagram.

    Why: reviewers must see what runs on LoadGen's side and how the two sides are joined.
    Fix: add the source of the QDL to the code folder and a diagram to the documentation.
    Source: inference_rules.adoc, "Network division": QDL and documentation.
    """
    if not submitter.complete:
        raise NotJudged
    code = [
        f for name in round.layout.code if (f := submitter.folder.folders.get(name)) is not None
    ]
    names = [n.lower() for top in code for here in top.walk() for n in [*here.files, *here.folders]]
    missing = []
    if not any("qdl" in name or "query_dispatch" in name or "network" in name for name in names):
        missing.append("the QDL's source")
    drawn = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".drawio", ".gif")
    outside = [f for n, f in submitter.folder.folders.items() if n not in ("results", "compliance")]
    if not any(file.name.lower().endswith(drawn) for top in outside for file in top.all_files()):
        missing.append("a diagram")
    if missing:
        yield Problem(
            f"{submitter.path} shows no sign of {listed(missing)}", path=submitter.path, found=None,
            required=missing,
        )  # fmt: skip
