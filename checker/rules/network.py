"""Family N: the network division: LoadGen and the system are joined by a network."""

from __future__ import annotations

from typing import Any

from checker.model import AccuracyRun, PerformanceRun, Submitter, System
from checker.near import MAX_HINTS, hint, nearest
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.comparing import at, stated_in
from checker.wording import listed, quantity, shown
from schemas.round import Round

NETWORK_SUT = "Network SUT"
_FABRICS = ("ethernet", "802.11", "wifi", "wi-fi", "wlan", "infiniband", "3gpp", "lte", "4g", "5g")
_ROUND_TRIP_NS = 10_000
"""The shortest time that a name can take over a network and back."""


def has_network(round: Round) -> bool:
    """Whether the round knows the network division."""
    return "network" in round.divisions


@rule(
    "N101",
    ERROR,
    cases={"no-results": WARNING, "unreadable": WARNING},
    divisions=("closed", "network"),
    when=has_network,
)
def network_claimed(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """is_network is true in the network division and only there.

    Why: a system behind a network is not the same as one that LoadGen calls directly.
    Fix: set is_network to true or false, or move the submission to the division it belongs to.
    Source: submission_rules.adoc, "System description": is_network.
    """
    claimed = system.is_network
    wanted = system.division == "network"
    written = fields.get("is_network")
    readable = claimed is not None or written is None
    if readable and bool(claimed) == wanted:
        return
    case = None if readable or wanted else "unreadable"
    expected = "true" if wanted else "false, or no such field"
    found = "null" if "is_network" in fields and written is None else shown(written)
    yield Problem(
        f"is_network is {found}; the {system.division} division expects {expected}",
        path=document.path,
        line=document.line_of("is_network"),
        pointer="/is_network",
        found=written,
        required=wanted,
        case=case if system.has_results else "no-results",
    )


@rule("N102", ERROR, cases={"no-results": WARNING, "empty": WARNING}, when=has_network)
def network_fields(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """A system behind a network has the fields that describe the network.

    Why: its results depend on the network as much as on the system.
    Fix: add the field to systems/<system>.json.
    Source: submission_rules.adoc, "System description": network division.
    """
    if system.division != "network" and system.is_network is not True:
        return
    known = {*round.system_description.required, *round.system_description.network}
    unknown = [key for key in fields if key not in known][:MAX_HINTS]
    for key in round.system_description.network:
        # A missing is_network is a finding of N101.
        if key == "is_network":
            continue
        if key not in fields:
            near = nearest(key, unknown, 0.85)
            yield Problem(
                f"found no field {key}{hint(near)}",
                path=document.path,
                line=document.line_of(near) if near else None,
                pointer=f"/{key}",
                found=near,
                required=key,
                case=None if system.has_results else "no-results",
            )
        elif fields[key] in ("", None, [], {}):
            yield Problem(
                f"{key} is empty; expected a meaningful response",
                path=document.path,
                line=document.line_of(key),
                pointer=f"/{key}",
                found=fields[key],
                required="a meaningful response",
                case="empty",
            )


@rule("N103", WARNING, divisions=("network",))
def network_datacenter(system: System, round: Round, document: Document, category: str) -> Problems:
    """A system in the network division is a datacenter system.

    Why: the division was made for datacenter systems; its scenarios are theirs.
    Fix: set system_type to datacenter, or submit in the closed or open division.
    Source: inference_rules.adoc, "Network division".
    """
    if category != "datacenter":
        text = f"system_type is {shown(category)}; the network division expects datacenter"
        yield stated_in(
            document, "system_type", text, category, "datacenter", pointer="/system_type"
        )


@rule("N104", WARNING, divisions=("network",))
def network_fabric(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The network is one of those that the division permits.

    Why: the rules do not count a private link between two machines as a network.
    Fix: name the fabric in network_type: Ethernet, 802.11, InfiniBand or 3GPP.
    Source: inference_rules.adoc, "Network division": permitted fabrics.
    """
    found = fields.get("network_type")
    if not found or (isinstance(found, str) and not found.strip()):
        # An absent or empty field is a finding of N102.
        return
    if not isinstance(found, str) or not any(name in found.lower() for name in _FABRICS):
        yield Problem(
            f"network_type is {shown(found)}; expected Ethernet, 802.11, InfiniBand or 3GPP",
            path=document.path,
            line=document.line_of("network_type"),
            pointer="/network_type",
            found=found,
            required="Ethernet, 802.11, InfiniBand, 3GPP",
        )


@rule("N105", ERROR, divisions=("network",))
def network_sut_name(
    run: PerformanceRun | AccuracyRun, round: Round, detail: DetailLog
) -> Problems:
    """The system under test calls itself a Network SUT.

    Why: LoadGen asks for the name over the network, so it shows which way the queries took.
    Fix: let the remote system answer with a name that contains "Network SUT", and run again.
    Source: inference_rules.adoc, "Network division": SUT name.
    """
    name = detail.text("sut_name")
    if name is None or NETWORK_SUT not in name:
        text = f'sut_name is {shown(name)}; expected a name that contains "{NETWORK_SUT}"'
        yield at(run, "sut_name", text, name, NETWORK_SUT)


@rule("N106", NOTE, divisions=("network",))
def network_name_took_time(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """Asking the system for its name took as long as a round trip over a network.

    Why: a name that comes at once was not requested over the network.
    Fix: forward the call of Name() to the remote system.
    Source: inference_rules.adoc, "Network division": SUT name; LoadGen's get_sut_name_duration_ns.
    """
    took = detail.number("get_sut_name_duration_ns")
    if took is not None and took < _ROUND_TRIP_NS:
        text = (
            f"get_sut_name_duration_ns is {quantity(took, 'ns')}; a network takes at least about "
            f"{quantity(_ROUND_TRIP_NS, 'ns')}"
        )
        yield at(run, "get_sut_name_duration_ns", text, took, _ROUND_TRIP_NS)


@rule("N107", NOTE, divisions=("network",), needs="complete")
def network_documents(submitter: Submitter, round: Round) -> Problems:
    """A network submission includes the query dispatch library's source and a diagram.

    Why: reviewers must see what runs on LoadGen's side and how the two sides are joined.
    Fix: add the source of the QDL to the code folder and a diagram to the documentation.
    Source: inference_rules.adoc, "Network division": QDL and documentation.
    """
    code = [
        f for name in round.layout.code if (f := submitter.folder.folders.get(name)) is not None
    ]
    names = [n.lower() for top in code for here in top.walk() for n in [*here.files, *here.folders]]
    missing = []
    if not any("qdl" in name or "query_dispatch" in name or "network" in name for name in names):
        missing.append("source of the QDL")
    drawn = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".drawio", ".gif")
    outside = [f for n, f in submitter.folder.folders.items() if n not in ("results", "compliance")]
    if not any(file.name.lower().endswith(drawn) for top in outside for file in top.all_files()):
        missing.append("diagram")
    if missing:
        yield Problem(f"found no {listed(missing, 'or')}", required=missing)
