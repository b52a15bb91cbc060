"""Which result is judged when and by which worker.

The order of the outcomes never depends on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed

from checker.discover import ResultPlan
from checker.machine import MachineFault
from checker.options import Progress
from checker.rule import Rule
from checker.unit import NoMemory, Outcome, broken, judge_of, work
from checker.workers import one_worker, workers
from schemas.round import Round

_CHUNK = 6


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
) -> list[Outcome]:
    """Judge every result; the outcomes are in the order of the plans whatever carries the work.

    meanwhile: called once, while workers are busy.
    """
    ids = tuple(rule.id for rule in rules)
    judge_of.cache_clear()
    judge_of(round.name, ids, audit)  # before workers are forked, so that they share it
    outcomes: dict[int, list[Outcome]] = {}
    data = data or {}
    chunks = _chunks(plans, jobs)
    done = 0
    with workers(jobs if len(chunks) > 1 else 1, executor) as pool:
        if pool is None:
            meanwhile()
            for index, chunk in enumerate(chunks):
                try:
                    outcomes[index] = work(chunk, round.name, ids, data, audit)
                except MemoryError:
                    outcomes[index] = []
                done += len(chunk)
                if progress:
                    progress(done, len(plans))
        else:
            # The largest first, so that no worker is left alone with one at the end.
            order = sorted(range(len(chunks)), key=lambda i: _bytes(chunks[i]), reverse=True)
            waiting = {pool.submit(work, chunks[i], round.name, ids, data, audit): i for i in order}
            meanwhile()
            for future in as_completed(waiting):
                index = waiting[future]
                try:
                    outcomes[index] = future.result()
                except (BrokenExecutor, MemoryError):
                    outcomes[index] = []
                except MachineFault:
                    raise
                except Exception as error:
                    outcomes[index] = [broken(plan, round, error) for plan in chunks[index]]
                done += len(chunks[index])
                if progress:
                    progress(done, len(plans))
    for index, chunk in enumerate(chunks):
        if not outcomes[index]:
            # A worker died (killed, out of memory): each of its results is tried alone, in a
            # process of its own, so that one of them cannot take the others along.
            outcomes[index] = [_alone(plan, round, ids, data, audit) for plan in chunk]
    return [outcome for index in range(len(chunks)) for outcome in outcomes[index]]


def _alone(
    plan: ResultPlan, round: Round, ids: tuple[str, ...], data: dict[str, str], audit: bool
) -> Outcome:
    try:
        with one_worker() as pool:
            return pool.submit(work, [plan], round.name, ids, data, audit).result()[0]
    except MachineFault:
        raise
    except (BrokenExecutor, MemoryError):
        return broken(plan, round, NoMemory("its worker ended early, twice: out of memory?"))
    except Exception as error:
        return broken(plan, round, error)
