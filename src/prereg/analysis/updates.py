"""How updates travel: their size, and their angle to the running sum and to the update before.

Descriptive evidence; no fit, no gate of its own. Columns: ``norm2.delta``, ``norm2.running_sum`` (squared
lengths of delta[l] and v[l]), ``cosine.running_sum`` (delta[l] with v[l]), ``cosine.previous`` (delta[l]
with delta[l-1]; null at update 0 and where a length is zero), and the ``sst`` columns of `kernels`.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from prereg.activations.view import Activations
from prereg.analysis.checks import baseline_support
from prereg.analysis.frame import Floats, Frame, square_norms
from prereg.analysis.settings import Baseline, Settings
from prereg.analysis.threads import one_thread
from prereg.evidence import Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["UpdateSettings", "measure"]


class UpdateSettings(Settings):
    """What the protocol says about updates.

    Parameters
    ----------
    baseline
        Stratum whose training mean gives ``sst``.
    min_stratum_prompts
        Training prompts that every stratum must have.
    """

    baseline: Baseline
    min_stratum_prompts: Annotated[int, Field(ge=2)]


def measure(activations: Activations, settings: UpdateSettings, workers: Workers) -> Evidence:
    """Describe every update of every held-out prompt.

    Raises
    ------
    AnalysisError
        If a held-out prompt's stratum has no training prompt.
    """
    frame = Frame.of(activations, settings.baseline)
    stream = [frame.stream(activations, layer) for layer in range(activations.n_layers + 1)]
    updates = range(activations.n_layers)
    tasks = [
        Task(
            f"update-{layer:03d}",
            describe_update,
            {"stream": stream[max(0, layer - 1) : layer + 2], "frame": frame},
        )
        for layer in updates
    ]
    results = list(workers.map(tasks, "updates").values())
    columns = {name: np.stack([result[name] for result in results]) for name in results[0]}
    checks = (baseline_support(frame, settings.min_stratum_prompts),)
    return Evidence(frame.table(activations, list(updates), columns), {}, checks)


@one_thread
def describe_update(*, stream: list[np.ndarray], frame: Frame) -> Arrays:
    """Return the columns of one update, (n_held_out,) each.

    Parameters
    ----------
    stream
        v[l-1] (absent at update 0), v[l], v[l+1] in canonical order, (n, d_model) each.
    frame
        The prompts.
    """
    resid = [np.asarray(v, dtype=np.float64) for v in stream]
    held_out = [v[frame.n_train :] for v in resid]
    running, delta = held_out[-2], held_out[-1] - held_out[-2]
    totals = frame.totals(resid[-1] - resid[-2])
    previous = running - held_out[0] if len(held_out) == 3 else np.zeros_like(delta)
    return {
        "sst": totals[f"sst.{frame.baseline}"],
        **totals,
        "norm2.delta": square_norms(delta),
        "norm2.running_sum": square_norms(running),
        "cosine.running_sum": _cosine(delta, running),
        "cosine.previous": _cosine(delta, previous),
    }


def _cosine(a: Floats, b: Floats) -> Floats:
    lengths = np.sqrt(square_norms(a) * square_norms(b))
    cosine: Floats = np.full(len(a), np.nan)
    np.divide(np.einsum("ij,ij->i", a, b), lengths, out=cosine, where=lengths > 0)
    return cosine
