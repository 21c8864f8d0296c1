"""H3: the depth-indexed linear state-space model over sparse sources, against readouts of the same update.

    s[l+1] = A_l s[l] + B_l z[l],    y[l] = C_l s[l] + D_l z[l],    s[0] = 0,

with z[l] the codes of update l and y[l] the update itself, all its dimensions, both centred by training stratum means
and scaled by their training RMS. Past codes reach an update through the state alone. Fitted in closed form on fresh
training prompts, evaluated on held-out prompts, whose states come from the recursion and nothing else. Definitions
where the delta-stream paper's abstract leaves them open are our own.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``sst``, ``sst.template``, ``sst.relation``, ``sst.global``
    Squared distance of delta[l] from means over the *fresh* training prompts; ``sst`` is that of the baseline.
``sse.ssm``, ``sse.readout_rank``, ``sse.readout_parameters``
    SSM(n, r); PL(r), of the same rank; PL(n + r + ceil(n^2 / (F + d))), of as many parameters.
``sse.ssm_full``, ``sse.readout_full``
    The state beside an unrestricted D, and the unrestricted readout: whether past codes add information at all.
``sse.ssm_n<n>_r<r>``, ``sse.readout_n<n>_r<r>``, ``sse.readout_r<r>``
    Registered further pairs, with the readouts of as many parameters and of the same rank.
``sse.ssm_shuffled``, ``sse.ssm_full_shuffled``
    The null: past codes of another prompt of the stratum, everything refit; means over draws. Their gain over
    ``readout_rank`` and ``readout_full`` is what the procedure finds where there is nothing.
``sse.<kind>_...``
    The five main fits on a further kind of dictionary.

Side tables: ``fits``, ``states`` (penalties of each step), ``spectrum``, ``path``, ``memory``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.checks import penalty_interior
from prereg.analysis.dictionaries.settings import Kind
from prereg.analysis.frame import Floats
from prereg.analysis.ridge import CHOICE_COLUMNS, Choice
from prereg.analysis.state_space.fitting import KindFits, fit_kind
from prereg.analysis.state_space.memory import state_path
from prereg.analysis.state_space.model import Stage, chosen_penalties, model_checks, prepare, weights_reach
from prereg.analysis.state_space.path import MEMORY, PATH
from prereg.analysis.state_space.settings import StateSpaceSettings
from prereg.analysis.state_space.sources import Dictionaries
from prereg.evidence import Check, Evidence
from prereg.workers import Workers

__all__ = ["fit_names", "measure"]

MAIN = ("ssm", "readout_rank", "readout_parameters", "ssm_full", "readout_full")


def fit_names(settings: StateSpaceSettings, *, twin: bool = False) -> frozenset[str]:
    """Return the fits that `measure` makes under these settings: what a contrast may name."""
    names = set(MAIN)
    if not twin:
        names |= {"ssm_shuffled", "ssm_full_shuffled"}
        names |= {f"{fit}_n{n}_r{r}" for fit in ("ssm", "readout") for n, r in settings.grid}
        names |= {f"readout_r{r}" for _, r in settings.grid}
        names |= {f"{kind}_{fit}" for kind in settings.kinds[1:] for fit in MAIN}
    return frozenset(names)


def measure(
    activations: Activations,
    settings: StateSpaceSettings,
    workers: Workers,
    *,
    dictionaries: Dictionaries,
    twin: bool = False,
) -> Evidence:
    """Fit the model and its readouts at every registered update.

    Parameters
    ----------
    activations
        The prompts and their residual stream.
    settings
        The protocol's.
    workers
        Tasks are updates, whole recursions, and jackknife groups.
    dictionaries
        The arm's library; what is missing is trained.
    twin
        True fits only the five main fits of the first kind, and gives the state path without intervals.

    Returns
    -------
    Evidence
        One row per held-out prompt and update from the first to the last of the registered set.

    Raises
    ------
    AnalysisError
        If the update set does not suit the model, too few fresh prompts are left for strata, folds or groups, or
        `max_gap` reaches back too far.
    """
    kinds = settings.kinds[:1] if twin else settings.kinds
    stage = prepare(activations, settings, kinds, dictionaries, workers)
    fits = {kind: fit_kind(stage, kind, settings, workers, lean=twin or kind != kinds[0]) for kind in kinds}
    path, memory = state_path(stage, kinds[0], fits[kinds[0]], settings, workers, lean=twin)
    columns = _columns(stage, fits)
    side = {
        "fits": _fits_table(stage, fits, columns),
        "states": _states_table(stage, fits),
        "spectrum": _spectrum_table(fits),
        "path": pa.Table.from_pylist(path, schema=PATH),
        "memory": pa.Table.from_pylist(memory, schema=MEMORY),
    }
    table = stage.frame.table(stage.activations, list(stage.updates), columns)
    return Evidence(table, side, _checks(stage, settings, fits))


def _checks(stage: Stage, settings: StateSpaceSettings, fits: Mapping[Kind, KindFits]) -> tuple[Check, ...]:
    chosen = [
        (f"{kind} {what} at update {layer}", choice)
        for kind, fit in fits.items()
        for what, layer, choice in chosen_penalties(stage, fit.read, fit.own, fit.main)
        if layer in stage.gated
    ]
    gains = [
        (f"{kind} {fit} at update {layer}", float(fits[kind].outputs[layer][f"weight_gain.{fit}"][0]))
        for kind in fits
        for fit in ("ssm", "ssm_full")
        for layer in stage.gated
    ]
    gains += [
        (f"{kind} state at update {layer}", float(gain))
        for kind, fit in fits.items()
        for layer, gain in enumerate(fit.main["weight_gains"], start=1)
        if layer in stage.gated
    ]
    return (
        penalty_interior(chosen, settings.edge_tolerance),
        weights_reach(gains, settings.edge_tolerance),
        *model_checks(stage, settings),
    )


def _columns(stage: Stage, fits: Mapping[Kind, KindFits]) -> dict[str, Floats]:
    totals = [
        stage.frame.totals(stage.activations.update(layer)[stage.frame.rows]) for layer in stage.updates
    ]
    columns = {name: np.stack([total[name] for total in totals]) for name in totals[0]}
    columns = {"sst": columns[f"sst.{stage.frame.baseline}"], **columns}
    for i, (kind, fit) in enumerate(fits.items()):
        for name in fit.columns:
            errors = []
            for k, (layer, target) in enumerate(zip(stage.updates, stage.targets, strict=True)):
                # Targets that don't vary were set to zero: there is nothing to explain, and nothing is.
                void = target.power == 0.0
                errors.append(columns["sst"][k] if void else fit.errors(layer, name) * target.power)
            columns[f"sse.{name}" if i == 0 else f"sse.{kind}_{name}"] = np.stack(errors)
    return columns


def _fits_table(stage: Stage, fits: Mapping[Kind, KindFits], columns: Mapping[str, Floats]) -> pa.Table:
    rows = []
    for i, (kind, fit) in enumerate(fits.items()):
        for k, layer in enumerate(stage.updates):
            for name in fit.columns:
                full = name if i == 0 else f"{kind}_{name}"
                row: dict[str, object] = {"update": layer, "fit": full}
                row |= Choice.from_row(fit.read[layer]["choice"]).as_record()
                weight = fit.outputs[layer].get(f"weight.{name}")
                row["state_weight"] = None if weight is None else float(weight[0])
                total = float(columns["sst"][k].sum())
                row["r2"] = 1.0 - float(columns[f"sse.{full}"][k].sum()) / total if total > 0 else None
                rows.append(row)
    return pa.Table.from_pylist(rows, schema=_FITS)


def _states_table(stage: Stage, fits: Mapping[Kind, KindFits]) -> pa.Table:
    n_train = stage.frame.n_train
    rows = []
    for kind, fit in fits.items():
        for i, (row, weight) in enumerate(zip(fit.main["choices"], fit.main["weights"], strict=True)):
            states = fit.main["states"][i + 1]
            sizes = [float(np.mean(np.sum(part**2, axis=1))) for part in (states[:n_train], states[n_train:])]
            rows.append(
                {"kind": kind, "update": i + 1, "state_weight": float(weight)}
                | Choice.from_row(row).as_record()
                | dict(zip(("power_training", "power_held_out"), sizes, strict=True))
            )
    return pa.Table.from_pylist(rows, schema=_STATES)


def _spectrum_table(fits: Mapping[Kind, KindFits]) -> pa.Table:
    rows = [
        {"kind": kind, "update": layer, "index": i, "singular_value": float(value)}
        for kind, fit in fits.items()
        for layer, found in enumerate(fit.own.found, start=1)
        for i, value in enumerate(found["spectrum"])
    ]
    return pa.Table.from_pylist(rows, schema=_SPECTRUM)


_FITS = pa.schema(
    [
        ("update", pa.int16()),
        ("fit", pa.string()),
        *CHOICE_COLUMNS,
        ("state_weight", pa.float64()),
        ("r2", pa.float64()),
    ]
)
"""Side table ``fits``. The penalty is the readout's, which every fit of an update shares; the state's weight is null
for readouts, and for the null, whose draws chose one each."""

_STATES = pa.schema(
    [
        ("kind", pa.string()),
        ("update", pa.int16()),
        *CHOICE_COLUMNS,
        ("state_weight", pa.float64()),
        ("power_training", pa.float64()),
        ("power_held_out", pa.float64()),
    ]
)
"""Side table ``states``: how s[update] was fit, and the mean squared length of cross-fitted and of held-out states."""

_SPECTRUM = pa.schema(
    [("kind", pa.string()), ("update", pa.int16()), ("index", pa.int16()), ("singular_value", pa.float64())]
)
"""Side table ``spectrum``: singular values of the past's share in the future, from which an order can be judged."""
