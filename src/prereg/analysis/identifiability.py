"""H5: whether dictionaries trained from different seeds find the same features.

The features of two dictionaries of one kind and update are matched one to one, so that the sum of the cosines of their
directions is largest (Hungarian method; `scipy.optimize.linear_sum_assignment`). The cosine is signed: activations are
not negative, so an opposite direction is another feature. Where one side has fewer features, as many pairs are made as
it has. Our own definition; the mean of such cosines is used by Paulo and Belrose 2025, arXiv:2501.16615.

Rows of the evidence are pairs of seeds and updates, not prompts: updates are the units to resample.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``value.<kind>_cosine``, ``value.<kind>_share``
    Mean matched cosine, and share of pairs above `IdentifiabilitySettings.close`, of the live features: those that are
    active in some training row.
``value.<kind>_cosine_all``, ``value.<kind>_share_all``
    The same of all features. A dead one keeps its random start, so it can't be matched.
``value.<kind>_across``
    Mean matched cosine of live features of one seed at this update with the other's at a distant one (half the set of
    updates away): what dictionaries of different data have in common.
``value.null_cosine``, ``value.null_share``
    The same of random unit directions, as many and as long: means over draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Protocol

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field

from prereg.activations.view import Activations
from prereg.analysis.checks import update_set
from prereg.analysis.dictionaries import Dictionary, Kind, Library
from prereg.analysis.frame import Floats
from prereg.analysis.settings import Name, Seed, Settings, Tolerance
from prereg.analysis.threads import one_thread
from prereg.errors import AnalysisError
from prereg.evidence import Check, Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = ["IdentifiabilitySettings", "fit_names", "matched_cosines", "measure"]


def _distinct(values: tuple[Kind, ...]) -> tuple[Kind, ...]:
    if not values or len(set(values)) != len(values):
        raise ValueError(f"found {list(values)}, wanted at least one kind and none twice")
    return values


class IdentifiabilitySettings(Settings):
    """What the protocol says about identifiability.

    Parameters
    ----------
    updates
        Update set whose dictionaries are compared; at least two updates.
    kinds
        Which of the dictionaries' kinds.
    close
        Cosine above which two features count as the same.
    null_draws, null_seed
        Pairs of random dictionaries for each row.
    """

    updates: Name
    kinds: Annotated[tuple[Kind, ...], AfterValidator(_distinct)]
    close: Tolerance
    null_draws: Annotated[int, Field(ge=1)]
    null_seed: Seed


class _Shelf(Protocol):
    """What is asked of a library."""

    def dictionary(self, kind: Kind, seed: int, update: int) -> Dictionary: ...


def fit_names(settings: IdentifiabilitySettings, *, twin: bool = False) -> frozenset[str]:
    """Return the values that `measure` gives under these settings; a twin's are the same."""
    del twin
    what = ("cosine", "share", "cosine_all", "share_all", "across")
    return frozenset(
        {f"{kind}_{name}" for kind in settings.kinds for name in what} | {"null_cosine", "null_share"}
    )


def matched_cosines(one: Floats, other: Floats) -> Floats:
    """Return the cosines of the best one-to-one matching of two sets of unit directions.

    Parameters
    ----------
    one, other
        (F, d) and (G, d), unit rows.

    Returns
    -------
    Floats
        (min(F, G),) signed cosines.

    Raises
    ------
    AnalysisError
        If one set is empty, or they have other dimensions.
    """
    if not len(one) or not len(other) or one.shape[1:] != other.shape[1:]:
        raise AnalysisError(
            f"wanted two sets of directions to match, found shapes {one.shape} and {other.shape}"
        )
    from scipy.optimize import linear_sum_assignment

    cosines: Floats = one @ other.T
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    best: Floats = cosines[rows, columns]
    return best


def measure(
    activations: Activations, settings: IdentifiabilitySettings, workers: Workers, *, dictionaries: Library
) -> Evidence:
    """Match every pair of seeds at every update.

    Parameters
    ----------
    activations
        The arm's; only its update sets are asked.
    settings
        The protocol's.
    workers
        One task for each update.
    dictionaries
        The arm's library, with two seeds or more; what is missing is trained.

    Returns
    -------
    Evidence
        One row per pair of seeds and update, called ``seeds <a>-<b>``; a side table ``features`` counts live ones.

    Raises
    ------
    AnalysisError
        If there are fewer than two seeds or updates, a kind is not in the library, or a dictionary has no live feature.
    """
    updates = update_set(activations, settings.updates, first=0, setting="updates")
    seeds = tuple(sorted(dictionaries.seeds))
    if len(seeds) < 2 or len(updates) < 2:
        raise AnalysisError(
            f"{len(seeds)} seed(s) and {len(updates)} update(s): wanted two or more of each to compare dictionaries",
            remedy="add to `seeds` in [analyses.dictionaries], or name a larger update set",
        )
    dictionaries.ensure([(k, s, u) for u in updates for s in seeds for k in settings.kinds], workers)
    pairs = list(itertools.combinations(seeds, 2))
    tasks = [
        Task(
            f"update-{update:03d}",
            compare,
            {
                "library": dictionaries,
                "live": {
                    (kind, seed, at): dictionaries.record(kind, seed, at).live
                    for kind in settings.kinds
                    for seed in seeds
                    for at in (update, _distant(updates, update))
                },
                "settings": settings,
                "pairs": pairs,
                "update": update,
                "distant": _distant(updates, update),
            },
        )
        for update in updates
    ]
    results = dict(zip(updates, workers.map(tasks, "identifiability").values(), strict=True))
    keys = [(i, update) for i in range(len(pairs)) for update in updates]
    names = pa.array([f"seeds {pairs[i][0]}-{pairs[i][1]}" for i, _ in keys], pa.string())
    every = pa.array(["pairs"] * len(keys), pa.string())
    table = {
        "prompt": names,
        "subject": names,
        "relation": every,
        "template": every,
        "update": pa.array([update for _, update in keys], pa.int16()),
    }
    for name in results[updates[0]]:
        table[f"value.{name}"] = pa.array([float(results[u][name][i]) for i, u in keys], pa.float64())
    features = [
        {
            "kind": kind,
            "seed": seed,
            "update": update,
            "features": len(dictionaries.record(kind, seed, update).live),
            "live": int(dictionaries.record(kind, seed, update).live.sum()),
        }
        for update in updates
        for seed in seeds
        for kind in settings.kinds
    ]
    side = {"features": pa.Table.from_pylist(features)}
    checks = [_matching_works(dictionaries, settings.kinds[0], seeds[0], updates[0])]
    if {"topk", "l1"} <= set(settings.kinds):
        checks.append(_equally_sparse(activations, dictionaries, updates))
    return Evidence(pa.table(table), side, tuple(checks))


def _equally_sparse(activations: Activations, library: Library, updates: Sequence[int]) -> Check:
    """Check that L1 has TopK's L0 at the held-out readout position, on average over updates, under each seed.

    It belongs to what compares the two kinds: what rests on one of them alone is none the worse for it.
    """
    off: dict[int, float] = {}
    for seed in library.seeds:
        l0 = {"topk": 0.0, "l1": 0.0}
        for update in updates:
            held_out = activations.update(update)[activations.held_out]
            for kind in ("topk", "l1"):
                codes = library.dictionary(kind, seed, update).codes(held_out)
                l0[kind] += float((codes > 0.0).sum(axis=1).mean())
        off[seed] = abs(l0["l1"] - l0["topk"]) / l0["topk"] if l0["topk"] > 0.0 else math.inf
    worst = max(off, key=lambda seed: off[seed])
    allowed = library.settings.l0_tolerance
    detail = (
        f"mean L0 of L1 at the held-out readout position is at most {off[worst]:.1%} from TopK's (seed {worst}), "
        f"allowed {allowed:.0%}"
    )
    return Check(name="l0_matched", passed=all(found <= allowed for found in off.values()), detail=detail)


@one_thread
def compare(
    *,
    library: _Shelf,
    live: dict[tuple[Kind, int, int], np.ndarray],
    settings: IdentifiabilitySettings,
    pairs: list[tuple[int, int]],
    update: int,
    distant: int,
) -> Arrays:
    """Match all pairs of seeds at one update; every value is (n_pairs,)."""
    found: dict[str, list[float]] = {}

    def keep(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for i, (a, b) in enumerate(pairs):
        shape = (0, 0)
        for kind in settings.kinds:
            one, other = (library.dictionary(kind, seed, update).directions for seed in (a, b))
            far = library.dictionary(kind, b, distant).directions[live[kind, b, distant]]
            living = one[live[kind, a, update]]
            close = matched_cosines(living, other[live[kind, b, update]])
            whole = matched_cosines(one, other)
            keep(f"{kind}_cosine", float(close.mean()))
            keep(f"{kind}_share", float(np.mean(close > settings.close)))
            keep(f"{kind}_cosine_all", float(whole.mean()))
            keep(f"{kind}_share_all", float(np.mean(whole > settings.close)))
            keep(f"{kind}_across", float(matched_cosines(living, far).mean()))
            shape = one.shape
        draws = [
            _random_match(shape, settings.null_seed, update, i, draw) for draw in range(settings.null_draws)
        ]
        keep("null_cosine", float(np.mean(draws)))
        keep("null_share", float(np.mean(np.array(draws) > settings.close)))
    return {name: np.array(values) for name, values in found.items()}


def _random_match(shape: tuple[int, ...], *seed: int) -> Floats:
    sides = np.random.default_rng([*seed, 6]).standard_normal((2, *shape))
    sides /= np.linalg.norm(sides, axis=2, keepdims=True)
    return matched_cosines(sides[0], sides[1])


def _distant(updates: tuple[int, ...], update: int) -> int:
    return updates[(updates.index(update) + len(updates) // 2) % len(updates)]


def _matching_works(library: _Shelf, kind: Kind, seed: int, update: int) -> Check:
    """Check that a dictionary matched with itself in another order is found to be itself."""
    directions = library.dictionary(kind, seed, update).directions
    shuffled = directions[np.random.default_rng(0).permutation(len(directions))]
    least = float(matched_cosines(directions, shuffled).min())
    detail = f"a dictionary and itself, shuffled: the least matched cosine is {least:.6f}"
    return Check(name="matching_recovers_itself", passed=least > 1 - 1e-5, detail=detail)
