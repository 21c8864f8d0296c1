"""One BLAS thread: sums then have one order, in this process as in a worker, whatever `jobs` is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["one_thread"]

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function` run with a single BLAS thread, and give the others back afterwards."""

    @functools.wraps(function)
    def single(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1):
            return function(*args, **kwargs)

    return single
