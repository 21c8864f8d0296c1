"""Dask and Ray: calls go out, as many at once as there are jobs, and answers come back as they are finished."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import textwrap
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any

from prereg.clusters.work import Call, work
from prereg.errors import PreregError

__all__ = ["Answers", "dask_cluster", "in_words", "ray_cluster"]

Answers = Callable[[Iterator[Call], int], Generator[bytes]]
"""What runs calls, so many at once."""

_PATIENCE = 30.0
"""Seconds that a scheduler without workers has to find one."""
_KNOCK = 5.0
"""Seconds to wait for an address to answer at all: Ray itself would try for minutes."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextlib.contextmanager
def dask_cluster() -> Iterator[Answers]:
    """Yield what runs calls on this process' Client, or on one for the address that Dask is configured with."""
    import dask
    from distributed import Client

    with contextlib.ExitStack() as stack:
        try:
            client = Client.current()
        except ValueError:
            address = dask.config.get("scheduler-address", default=None)
            if not address:
                raise RuntimeError("there is no Client here, and no scheduler's address") from None
            client = stack.enter_context(Client(address, set_as_default=False))
        if not client.nthreads():
            _wait_for_a_worker(client)
        # A task carries its own arrays, some tens of megabytes; the warning is meant for other uses.
        stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}))
        yield lambda calls, jobs: _on_dask(client, calls, jobs)


def _wait_for_a_worker(client: Any) -> None:
    # A cluster that grows by need starts its first worker for a task, not for a question.
    asked = client.submit(bool, pure=False)
    try:
        asked.result(timeout=_PATIENCE)
    except TimeoutError as error:
        raise RuntimeError(f"the scheduler has had no worker for {_PATIENCE:.0f} seconds") from error
    finally:
        asked.cancel()


def _on_dask(client: Any, calls: Iterator[Call], jobs: int) -> Generator[bytes]:
    from distributed import as_completed

    # No name for a finished future stays here: the cluster keeps its result for as long as there is one.
    running = as_completed(
        [client.submit(work, *call, pure=False) for call in islice(calls, jobs)], loop=client.loop
    )
    try:
        for future in running:
            try:
                answer = future.result()
            except (Exception, asyncio.CancelledError) as error:
                raise _lost("dask", error) from error
            del future
            for call in islice(calls, 1):
                running.add(client.submit(work, *call, pure=False))
            yield answer
    finally:
        with contextlib.suppress(Exception):
            client.cancel(list(running.futures))


def ray_cluster() -> Answers:
    """Return what runs calls on Ray; this process stays connected, since each connection starts its own workers."""
    import ray

    if not ray.is_initialized():
        _knock(os.environ.get("RAY_ADDRESS", ""))
        ray.init(address="auto", log_to_driver=False, logging_level="warning")
    return _on_ray


def _knock(address: str) -> None:
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not (colon and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK).close()
    except OSError as error:
        raise RuntimeError(f"nothing answers at RAY_ADDRESS={address}: {error}") from error


def _on_ray(calls: Iterator[Call], jobs: int) -> Generator[bytes]:
    import ray

    remote = ray.remote(num_cpus=1)(work)
    running = [remote.remote(*call) for call in islice(calls, jobs)]
    try:
        while running:
            finished, running = ray.wait(running, num_returns=1)
            try:
                answer = ray.get(finished[0])
            except Exception as error:
                raise _lost("ray", error) from error
            running += [remote.remote(*call) for call in islice(calls, 1)]
            yield answer
    finally:
        for reference in running:
            with contextlib.suppress(Exception):
                ray.cancel(reference, force=True)


def in_words(error: BaseException) -> str:
    """Return how an error's message begins and ends, on one line; its name where there is none."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    ends = dict.fromkeys([*lines[:1], *lines[-1:]])
    return " ... ".join(textwrap.shorten(line, 250) for line in ends) or repr(error)


def _lost(engine: str, error: BaseException) -> PreregError:
    said, cause = in_words(error), error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    because = "" if cause is error else f" ({in_words(cause)})"
    return PreregError(
        f"the {engine} cluster lost a task: {said}{because}",
        remedy="look into the workers' logs (most often memory ran out, or prereg can't be imported there), and run "
        "the same command again: finished work is kept",
    )
