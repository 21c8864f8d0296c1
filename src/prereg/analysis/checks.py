"""What an analysis verifies about its own working; a failed check makes a verdict invalid."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prereg.activations.view import Activations, UpdateSet
from prereg.analysis.frame import Frame, Indices
from prereg.analysis.ridge import Choice
from prereg.errors import AnalysisError
from prereg.evidence import Check

__all__ = ["baseline_support", "penalty_interior", "rounding", "subjects_apart", "update_set"]

ROUNDING = 1e-9
"""Largest relative difference allowed between two exact ways to one sum of squares."""


def update_set(activations: Activations, name: str, *, first: int, setting: str) -> UpdateSet:
    """Return a named set of updates that a fit can serve.

    Raises
    ------
    AnalysisError
        If the protocol has no such set, it is empty, or it reaches below `first` or past the last block.
    """
    if name not in activations.update_sets:
        raise AnalysisError(
            f"{setting}: no update set is called {name!r}; known: "
            f"{', '.join(sorted(activations.update_sets)) or 'none'}",
            remedy=f"add [updates.{name}] to the protocol, or change `{setting}`",
        )
    updates = activations.update_sets[name]
    if not updates:
        raise AnalysisError(f"{setting}: the update set {name!r} is empty")
    if min(updates) < first or max(updates) >= activations.n_layers:
        raise AnalysisError(
            f"{setting}: the update set {name!r} spans updates {min(updates)} to {max(updates)}; wanted "
            f"{first} to {activations.n_layers - 1}, since a fit looks {first} update(s) back",
            remedy=f"let [updates.{name}] begin at {first} or later",
        )
    return updates


def penalty_interior(chosen: Iterable[tuple[str, Choice]], tolerance: float) -> Check:
    """Check that the finite grid of penalties did not end too early.

    A penalty at either end fails where the last step towards that end still gained more than `tolerance`:
    beyond it the fit may be better yet. The infinite penalty is the baseline itself, beyond which there is
    nothing, and is no end.

    Parameters
    ----------
    chosen
        Pairs of a fit's name and its penalty.
    tolerance
        In units of cross-validated R2.
    """
    pairs = list(chosen)
    infinite = sum(math.isinf(choice.penalty) for _, choice in pairs)
    ends = sum(choice.at_lower_edge or choice.at_upper_edge for _, choice in pairs)
    early = [
        f"{name}: {c.penalty:g} gained {c.edge_gain:.2g}" for name, c in pairs if not c.edge_gain <= tolerance
    ]
    detail = (
        f"{len(pairs)} penalties, {infinite} infinite, {ends} at an end of the grid, {len(early)} too early"
    )
    if early:
        detail += f" (more than {tolerance:g}): {'; '.join(early[:5])}"
    return Check(name="penalty_interior", passed=bool(pairs) and not early, detail=detail)


def subjects_apart(frame: Frame, folds: Indices) -> Check:
    """Check that no subject stands on both sides of the split, or in two folds."""
    training = set(frame.subjects[: frame.n_train])
    both = training & set(frame.subjects[frame.n_train :])
    seen = set(zip(frame.subjects[: frame.n_train], folds.tolist(), strict=True))
    passed = not both and len(seen) == len(training)
    detail = f"{len(training)} training subjects, {len(both)} of them held out, {len(seen)} in folds"
    return Check(name="subjects_apart", passed=passed, detail=detail)


def baseline_support(frame: Frame, least: int) -> Check:
    """Check that every stratum of the gates' baseline has `least` training prompts."""
    counts = frame.training_counts(frame.baseline)
    names = frame.names[frame.baseline]
    thin = [f"{names[i]}: {count}" for i, count in enumerate(counts) if count < least]
    thinnest = int(counts.min())
    detail = f"{len(counts)} strata ({frame.baseline}), the thinnest has {thinnest} training prompts"
    if thin:
        detail += f", wanted {least}: {'; '.join(thin[:5])}"
    return Check(name="baseline_support", passed=thinnest >= least, detail=detail)


def rounding(worst: float) -> Check:
    """Check that two exact ways to the same squared errors agree."""
    return Check(
        name="gram_rounding",
        passed=worst <= ROUNDING,
        detail=f"largest relative difference {worst:.1e}, allowed {ROUNDING:g}",
    )
