"""Long work: independent tasks, spread over workers, shown as progress, resumed after a kill.

Every slow stage (one update's fits, one twin's capture) is a list of independent tasks whose results are
plain arrays. `Workers.map` runs them here through joblib, whose backend is the user's choice, or on a
Dask or Ray cluster (`prereg.clusters`), and keeps each finished result in a checkpoint folder, so that an
interrupted run redoes only what had not finished.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from prereg.clusters import CLUSTERS, on_cluster, require_cluster
from prereg.errors import PreregError, StorageError

__all__ = [
    "Arrays",
    "NullProgress",
    "Progress",
    "Task",
    "Workers",
    "available_cores",
    "refused_by_disk",
    "require_engine",
    "write_atomically",
]

Arrays = Mapping[str, np.ndarray]
"""What a task returns: named arrays, never objects, so that a checkpoint needs no pickle."""

ENGINES = ("loky", "threading")
"""Engines that are always there."""


class Progress(Protocol):
    """Where long work says how far it is."""

    def start(self, total: int, label: str) -> None:
        """Begin a bar of `total` steps."""

    def advance(self, n: int = 1) -> None:
        """Tell that `n` more steps are done."""

    def finish(self) -> None:
        """Close the bar."""


class NullProgress:
    """Progress that nobody watches."""

    def start(self, total: int, label: str) -> None:
        """Do nothing."""

    def advance(self, n: int = 1) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    """One independent piece of work.

    Parameters
    ----------
    key
        A name for the result, unique in its list and fit for a file name.
    function
        A module-level function, so that a worker process can import it.
    arguments
        Its keyword arguments.
    """

    key: str
    function: Callable[..., Arrays]
    arguments: Mapping[str, object]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._+-]+", self.key):
            raise PreregError(f"a task's key must be fit for a file name, found {self.key!r}")


@dataclass(frozen=True, slots=True)
class Workers:
    """How many hands, of which kind, watched by whom, and where they leave what they finished.

    Parameters
    ----------
    jobs
        Worker processes; 1 runs in this process. On a cluster, how many tasks are under way at once, 1 too.
    engine
        A cluster, ``dask`` or ``ray``, or a joblib backend that hands results over as they finish: ``loky``
        (processes, the default), ``threading``, or one that a package registered. joblib's ``multiprocessing``
        can't do that, so its finished work would be lost with an interrupted run: it is refused.
    progress
        Told of each finished task.
    checkpoint
        A folder for finished results, removed by the caller once the whole is safe; None keeps nothing.
    """

    jobs: int = 1
    engine: str = "loky"
    progress: Progress = field(default_factory=NullProgress)
    checkpoint: Path | None = None

    def at(self, checkpoint: Path) -> Workers:
        """Return the same workers, with their finished results kept under `checkpoint`."""
        return Workers(self.jobs, self.engine, self.progress, checkpoint)

    def map(self, tasks: Sequence[Task], label: str) -> dict[str, Arrays]:
        """Run every task once and return the results by key, in the order of `tasks`.

        Results found in the checkpoint folder are read, not computed again. The results do not depend on
        `jobs`, on the engine, or on the order in which tasks finish.

        Raises
        ------
        PreregError
            If two tasks share a key, or the engine can't be used; whatever a task itself raises passes through.
        StorageError
            If the checkpoint folder can't be read or written.
        """
        if self.engine not in CLUSTERS:  # a cluster is looked for once there is something to run
            require_engine(self.engine, self.jobs)
        if len({task.key for task in tasks}) != len(tasks):
            raise PreregError(f"{label}: two tasks share a key")
        done: dict[str, Arrays] = {}
        self.progress.start(len(tasks), label)
        try:
            todo = []
            for task in tasks:
                kept = self._recall(task.key)
                if kept is None:
                    todo.append(task)
                else:
                    done[task.key] = kept
                    self.progress.advance()
            for key, result in self._run(todo):
                self._keep(key, result)
                done[key] = result
                self.progress.advance()
        finally:
            self.progress.finish()
        return {task.key: done[task.key] for task in tasks}

    def clear(self) -> None:
        """Forget the checkpoint: its results have reached a safer place."""
        if self.checkpoint is not None:
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def _run(self, tasks: Sequence[Task]) -> Iterator[tuple[str, Arrays]]:
        if tasks and self.engine in CLUSTERS:
            # Also a single task: the machine that asks may be one that should not compute.
            modules = {task.function.__module__ for task in tasks}
            yield from on_cluster(self.engine, [partial(_call, task) for task in tasks], modules, self.jobs)
            return
        if self.jobs == 1 or len(tasks) <= 1:
            for task in tasks:
                yield _call(task)
            return
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        with (
            self._one_blas_thread(),
            parallel_config(self.engine, n_jobs=self.jobs, **self._engine_options()),
        ):
            pool = Parallel(return_as="generator_unordered")
            try:
                yield from pool(delayed(_call_in_worker)(task, os.getpid()) for task in tasks)
            except TerminatedWorkerError as error:
                raise PreregError(
                    f"one of {self.jobs} worker processes was ended from outside; most often memory ran out",
                    remedy="run the same command again, with fewer --jobs: finished work is kept",
                ) from error

    def _one_blas_thread(self) -> AbstractContextManager[object]:
        # A task that sets the process' threads to one gives back what it found, also under another task of the same
        # process: with more than one to give back, a sum's order would hang on which of them ended first.
        from threadpoolctl import threadpool_limits

        return threadpool_limits(limits=1) if self.engine == "threading" else contextlib.nullcontext()

    def _engine_options(self) -> dict[str, int]:
        # One BLAS thread a worker: two OpenMP threads on one core slow small products many times over.
        return {"inner_max_num_threads": 1} if self.engine == "loky" else {}

    def _file(self, key: str) -> Path | None:
        return None if self.checkpoint is None else self.checkpoint / f"{key}.npz"

    def _recall(self, key: str) -> Arrays | None:
        file = self._file(key)
        if file is None:
            return None
        try:
            with file.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            return None
        except OSError as error:
            # Where nothing can be read nothing can be kept either: better told now than after an hour's work.
            raise refused_by_disk(file, error, "can't be read") from error
        except Exception:
            # A checkpoint is only a saving: one that is damaged, in whatever way, is computed again.
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            return None

    def _keep(self, key: str, result: Arrays) -> None:
        file = self._file(key)
        if file is None:
            return
        write_atomically(file, lambda part: np.savez(part, allow_pickle=False, **result))


def require_engine(engine: str, jobs: int) -> None:
    """Refuse an engine before anything is run: no hour is lost, and no error of a task is taken for the engine's.

    Raises
    ------
    PreregError
        If joblib doesn't know it, it isn't set up, it can't hand results over as they finish, or it is a cluster that
        isn't there.
    """
    if engine in ENGINES:
        return
    if engine in CLUSTERS:
        require_cluster(engine)
        return
    from joblib import Parallel, parallel_config
    from joblib.parallel import BACKENDS

    try:
        with parallel_config(engine, n_jobs=jobs):
            Parallel(return_as="generator_unordered")
    except Exception as error:  # a backend that a package registered raises what it likes
        said = (str(error).strip() or repr(error)).splitlines()[0]
        known = sorted({*ENGINES, *BACKENDS} - {*CLUSTERS, "multiprocessing", "sequential", engine})
        raise PreregError(
            f"the engine {engine!r} can't be used: {said}",
            remedy=f"use --engine {' or --engine '.join(known)}, import the package that registers another, or use "
            f"--engine {' or --engine '.join(CLUSTERS)} on a cluster",
        ) from error


def available_cores() -> int:
    """Return how many cores this process may use; not every platform tells more than how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_NO_SUCH = (errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)


def refused_by_disk(path: Path, error: OSError, what: str) -> StorageError:
    """Return the error that says which path, what of it, why, and the remedy for that reason.

    Parameters
    ----------
    path
        What was to be read or written.
    error
        What the system answered.
    what
        What is wrong with `path` in words, as in "can't be written".
    """
    elsewhere = "choose another folder with --cache-dir / --report-dir"
    if error.errno in _FULL:
        remedy = f"free some space, or {elsewhere}"
    elif error.errno in _DENIED:
        remedy = f"{elsewhere}, or have its permissions changed"
    elif error.errno in _IN_THE_WAY:
        remedy = f"something else is in its place: move that away, or {elsewhere}"
    elif error.errno in _NO_SUCH:
        remedy = f"check the path, or {elsewhere}"
    else:
        remedy = f"check the disk, or {elsewhere}"
    return StorageError(f"{path} {what}: {error.strerror or error}", remedy=remedy)


def write_atomically(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file beside `file`, then put it in `file`'s place in one step.

    A reader sees the old bytes or the new ones, never half of them; two writers don't meet.

    Raises
    ------
    StorageError
        If the folder can't be made or written.
    """
    part = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        with part.open("rb") as handle:
            os.fsync(handle.fileno())
        part.replace(file)
    except OSError as error:
        raise refused_by_disk(file, error, "can't be written") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _call(task: Task) -> tuple[str, Arrays]:
    return task.key, task.function(**task.arguments)


def _call_in_worker(task: Task, parent: int) -> tuple[str, Arrays]:
    if os.getppid() == parent:
        _end_with(parent)
    return _call(task)


@cache
def _end_with(parent: int) -> None:
    """End this worker when the process that made it is gone, as after a kill: nobody waits for its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="prereg-parent-watch", daemon=True).start()
