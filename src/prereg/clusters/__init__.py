"""Tasks on a cluster: Dask or Ray, through their own interfaces.

joblib has a backend for either, and neither does what `prereg.workers` promises. Dask's never hears of a worker that
died, and waits for ever; Ray's can't hand results over as they finish. What is here is small: keep as many calls under
way as there are jobs, and give each answer back as it comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from prereg.clusters.backends import Answers, dask_cluster, in_words, ray_cluster
from prereg.clusters.work import opened, packages, surroundings
from prereg.errors import PreregError

__all__ = ["CLUSTERS", "on_cluster", "require_cluster"]

R = TypeVar("R")

CLUSTERS = ("dask", "ray")
"""Engines whose workers are somewhere else."""

_NO_CLUSTER = {
    "dask": "set DASK_SCHEDULER_ADDRESS to the scheduler's address, as in tcp://host:8786, and start its workers",
    "ray": "set RAY_ADDRESS to the cluster's address, as in host:6379, or start one with `ray start --head`",
}


def require_cluster(engine: str) -> None:
    """Refuse a cluster that isn't there, before anything is run.

    Parameters
    ----------
    engine
        One of `CLUSTERS`.

    Raises
    ------
    PreregError
        If its package isn't installed, no cluster is named, it can't be reached, or it has no workers.
    """
    with _connected(engine):
        pass


def on_cluster(
    engine: str, calls: Sequence[Callable[[], R]], modules: Collection[str], jobs: int
) -> Iterator[R]:
    """Yield what each call returns, in the order in which they finish.

    Parameters
    ----------
    engine
        One of `CLUSTERS`.
    calls
        What to run, without arguments; sent by cloudpickle.
    modules
        Where their functions come from: a worker must have the same source of these packages.
    jobs
        How many are under way at once.

    Raises
    ------
    PreregError
        If the cluster can't be used, a worker has other code or versions, or the cluster loses a call for good.
        Whatever a call itself raises passes through, with the worker's traceback as a note.
    """
    from cloudpickle import dumps

    with _connected(engine) as answers:
        wanted = surroundings(packages(modules))
        packed = ((wanted, dumps(call)) for call in calls)
        with contextlib.closing(answers(packed, jobs)) as arriving:
            for answer in arriving:
                yield opened(answer)


@contextlib.contextmanager
def _connected(engine: str) -> Iterator[Answers]:
    """Yield what runs calls on a cluster; a connection that this function made is closed again."""
    with contextlib.ExitStack() as stack:
        try:
            answers = stack.enter_context(dask_cluster()) if engine == "dask" else ray_cluster()
        except ImportError as error:
            raise _refused(engine, str(error), f'pip install "prereg-gates[{engine}]"') from error
        except Exception as error:
            raise _refused(engine, in_words(error), _NO_CLUSTER[engine]) from error
        yield answers


def _refused(engine: str, said: str, remedy: str) -> PreregError:
    return PreregError(
        f"the engine {engine!r} can't be used: {said}",
        remedy=f"{remedy}; or use --engine loky or --engine threading, on this machine",
    )
