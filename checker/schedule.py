"""Which result is judged when and by which worker.

The order of the outcomes never depends on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from checker.discover import ResultPlan
from checker.options import Progress
from checker.rule import Rule
from checker.unit import (
    NoMemory,
    Outcome,
    broken,
    judge_of,
    outcomes_of,
    work,
    work_packed,
)
from schemas.machine import MachineFault
from schemas.round import Round

if TYPE_CHECKING:
    from concurrent.futures import Executor

# What starts processes takes a fifth of a short check to import, and is imported where it is used.

_CHUNK = 6
_MANY = 1_500
"""Chunks from which on workers are started afresh."""
_Work = tuple[str, tuple[str, ...], dict[str, str], bool]
"""What `work` is given beside the plans: round, rule ids, data, audit."""
_Judged = Callable[[list[ResultPlan], list[Outcome]], list[Outcome]]
"""Told of a chunk that was judged and what came of it ([]: its worker died); what is kept of it."""


def _chunks(plans: list[ResultPlan], jobs: int) -> list[list[ResultPlan]]:
    size = max(1, min(_CHUNK, len(plans) // (jobs * 4) + 1))
    return [plans[i : i + size] for i in range(0, len(plans), size)]


def _bytes(plans: list[ResultPlan]) -> int:
    """How much there is to read, as a measure of the work."""
    folders = (f for p in plans for f in (p.folder, p.compliance_folder) if f is not None)
    return sum(file.size for folder in folders for file in folder.all_files())


def run_units(
    plans: list[ResultPlan],
    round: Round,
    rules: Sequence[Rule],
    *,
    jobs: int,
    data: dict[str, str] | None = None,
    audit: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    arrived: Callable[[ResultPlan, Outcome], Outcome] = lambda plan, outcome: outcome,
    fresh: bool = False,
) -> list[Outcome]:
    """Judge every result; the outcomes are in the order of the plans whatever carries the work.

    ``plans`` is emptied: what is judged is not kept.
    meanwhile: called once, while workers are busy. arrived: given each outcome when it is there;
    what it returns is kept. fresh: see `Options`.
    """
    ids = tuple(rule.id for rule in rules)
    judge_of.cache_clear()
    judge_of(round.name, ids, audit)  # before workers are forked, so that they share it
    chunks = _chunks(plans, jobs)
    given = (round.name, ids, data or {}, audit)
    done, total = 0, len(plans)
    plans.clear()

    def judged(chunk: list[ResultPlan], found: list[Outcome]) -> list[Outcome]:
        nonlocal done
        done += len(chunk)
        if progress:
            progress(done, total)
        return [arrived(plan, one) for plan, one in zip(chunk, found, strict=False)]

    if executor is None and (jobs == 1 or len(chunks) <= 1):
        meanwhile()
        outcomes = _here(chunks, given, judged)
    else:
        outcomes = _spread(
            chunks, round, given, jobs, executor, judged=judged, meanwhile=meanwhile, fresh=fresh
        )
    for index, chunk in enumerate(chunks):
        if not outcomes[index]:
            # A worker died (killed, out of memory): each of its results is tried alone, in a
            # process of its own, so that one of them cannot take the others along.
            outcomes[index] = [arrived(plan, _alone(plan, round, given)) for plan in chunk]
    return [outcome for index in range(len(chunks)) for outcome in outcomes[index]]


def _here(
    chunks: list[list[ResultPlan]], given: _Work, judged: _Judged
) -> dict[int, list[Outcome]]:
    """The outcomes of each chunk, judged in this process; none where the memory did not suffice."""
    outcomes: dict[int, list[Outcome]] = {}
    for index, chunk in enumerate(chunks):
        try:
            found = work(chunk, *given)
        except MemoryError:
            found = []
        outcomes[index] = judged(chunk, found)
        if found:
            chunks[index] = []
    return outcomes


def _spread(
    chunks: list[list[ResultPlan]],
    round: Round,
    given: _Work,
    jobs: int,
    executor: Executor | None,
    *,
    judged: _Judged,
    meanwhile: Callable[[], None],
    fresh: bool,
) -> dict[int, list[Outcome]]:
    """The outcomes of each chunk, judged by workers; none where the worker died."""
    from concurrent.futures import BrokenExecutor

    from checker.workers import Pool, as_they_come, workers

    outcomes: dict[int, list[Outcome]] = {}
    # A forked worker would keep the whole listing of a large tree, of which the parent lets go.
    with workers(
        jobs if len(chunks) > 1 else 1,
        executor,
        fresh=fresh and len(chunks) > _MANY,
        inherit=chunks,
    ) as pool:
        if pool is None:
            meanwhile()
            return _here(chunks, given, judged)
        # The largest first, so that no worker is left alone with one at the end.
        order = sorted(range(len(chunks)), key=lambda i: _bytes(chunks[i]), reverse=True)
        if isinstance(pool, Pool) and pool.forked:
            waiting = {pool.submit(_work_inherited, i, *given): i for i in order}
        else:
            waiting = {pool.submit(work_packed, chunks[i], *given): i for i in order}
        meanwhile()
        for future in as_they_come(pool, waiting):
            index = waiting.pop(future)  # with the future its result is gone
            try:
                found = outcomes_of(future.result())
            except (BrokenExecutor, MemoryError):
                found = []
            except MachineFault:
                raise
            except Exception as error:
                found = [broken(plan, round, error) for plan in chunks[index]]
            outcomes[index] = judged(chunks[index], found)
            if found:
                chunks[index] = []
    return outcomes


def _work_inherited(
    index: int, round_name: str, rule_ids: tuple[str, ...], data: dict[str, str], audit: bool
) -> bytes | list[Outcome]:
    """What `work_packed` returns for a chunk that this worker has had since it was forked: to send
    one takes as long as to read a tenth of its logs."""
    from checker.workers import inherited

    return work_packed(inherited()[index], round_name, rule_ids, data, audit)


def _alone(plan: ResultPlan, round: Round, given: _Work) -> Outcome:
    from concurrent.futures import BrokenExecutor

    from checker.workers import answer, one_worker

    try:
        with one_worker() as pool:
            return answer(pool, pool.submit(work, [plan], *given))[0]
    except MachineFault:
        raise
    except (BrokenExecutor, MemoryError):
        return broken(plan, round, NoMemory("its worker ended early, twice: out of memory?"))
    except Exception as error:
        return broken(plan, round, error)
