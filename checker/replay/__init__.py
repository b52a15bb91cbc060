"""Replay LoadGen from the seeds in a log, and compare.

LoadGen draws everything that is random in a run from a few announced seeds: which samples are
loaded, when the queries of the Server scenario arrive, which sample every query asks for, which
responses are logged. This package draws it all again, bit for bit as the C++ program does, and
says whether a log agrees. It reads no files: rules hand it parsed values.

Typical use::

    facts = RunFacts.from_log(values)
    outcome = check_loaded_set(facts, loaded_sets)

Modules: :mod:`.mt19937` (the generator), :mod:`.shuffle` (the C++ libraries' algorithms),
:mod:`.schedule` (query counts and arrival times), :mod:`.facts` (settings of a run),
:mod:`.queries` (loaded sets, order, sampling), :mod:`.compare` (the checks).
"""

from .compare import (
    Agreement,
    Build,
    Disagreement,
    NotReplayed,
    Outcome,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
    matching_builds,
)
from .facts import Generation, MissingFact, RunFacts, generation_of
from .queries import (
    LoadedSet,
    QueryPlan,
    loaded_sets,
    query_plan,
    sample_indices,
    sampling_probability,
    sampling_values,
)
from .schedule import (
    Schedule,
    TooLong,
    constant_schedule,
    rate_for,
    server_due_ns,
    server_schedule,
)
from .shuffle import Library

__all__ = [
    "Agreement",
    "Build",
    "Disagreement",
    "Generation",
    "Library",
    "LoadedSet",
    "MissingFact",
    "NotReplayed",
    "Outcome",
    "QueryPlan",
    "RunFacts",
    "Schedule",
    "TooLong",
    "check_loaded_set",
    "check_query_order",
    "check_sampling",
    "check_schedule",
    "constant_schedule",
    "generation_of",
    "loaded_sets",
    "matching_builds",
    "query_plan",
    "rate_for",
    "sample_indices",
    "sampling_probability",
    "sampling_values",
    "server_due_ns",
    "server_schedule",
]
