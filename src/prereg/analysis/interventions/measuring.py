"""H4: what removing a feature from an update does to the answer, beside removals of the same size.

At a registered update l, the readout token's stream v[l+1] has something subtracted and goes on through the later
blocks. An effect is log p(answer) as it is less log p(answer) with that removed, in nats: positive where what was
removed had helped. Removals are in raw residual units. The delta-stream paper's abstract leaves the choice of features
and the controls open: these are our own definitions.

Columns of the evidence, beside the identity columns
-----------------------------------------------------
``value.clean``
    log p(answer) of the model as it is; every prompt.
``value.all_features``, ``value.reconstruction``
    Effects of removing all active features, and the reconstruction with the dictionary's bias; every prompt.
``value.feature_<rank>``, ``cases.feature_<rank>``
    Effect of removing that candidate; the prompts where it is active.
``value.feature_<rank>_random``
    Mean effect of random directions of the same norm, on the same prompts.
``value.feature_<rank>_matched``
    Mean effect of removing other active features of nearest norm; the prompts that have another.
``value.group``, ``value.group_random``, ``value.group_matched``, with ``cases``
    The same for the first candidates removed together, on prompts where any is active; the matched group on those
    where each active member has a stand-in.

Batch shapes change effects by some 1e-6 nats; ``continuation_parity`` bounds it. The number of workers changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prereg.activations.view import Activations
from prereg.analysis.checks import update_set
from prereg.analysis.dictionaries import Library
from prereg.analysis.frame import Floats, Frame, Indices
from prereg.analysis.interventions.candidates import Candidates, choose, eligible
from prereg.analysis.interventions.designs import Designer, HeldOutDesigner, TrainingDesigner, column_names
from prereg.analysis.interventions.effects import chunks, effects
from prereg.analysis.interventions.parity import compare, parity_check, parity_table, stream_check
from prereg.analysis.interventions.settings import CONTEXT, InterventionSettings, feature_name
from prereg.analysis.interventions.sources import Prompts, Source
from prereg.analysis.settings import Baseline
from prereg.analysis.threads import one_thread
from prereg.errors import AnalysisError
from prereg.evidence import Evidence, digest_of
from prereg.workers import Arrays, Task, Workers

if TYPE_CHECKING:
    from prereg.activations.models import LoadedModel
    from prereg.analysis.interventions.continuation import Hands

__all__ = ["measure"]

BASELINE: Baseline = "relation"
"""Strata play no part here; a frame is asked for its order of prompts alone."""


@one_thread
def measure(
    activations: Activations,
    settings: InterventionSettings,
    workers: Workers,
    *,
    dictionaries: Library,
    model: LoadedModel,
) -> Evidence:
    """Choose features on fresh training prompts, then intervene on held-out ones.

    Parameters
    ----------
    activations
        The prompts, with token ids and answers.
    settings
        The protocol's.
    workers
        Tasks are chunks of prompts. The model can't be sent to other processes cheaply: the workers are threads of
        this one, with one OpenMP thread each, whatever the engine is.
    dictionaries
        The model's, trained here where they are missing.
    model
        The one that was captured, float32.

    Returns
    -------
    Evidence
        One row per held-out prompt and registered update; side tables ``candidates`` and ``parity``.

    Raises
    ------
    AnalysisError
        If an update set isn't one update, token ids, answers or the dictionary are missing, the model isn't of the
        captured shape, or there are too few features to choose from.
    ActivationsError
        If the model can't give evidence: training mode, half precision, prompts that it can't take.
    """
    from prereg.activations.capture.forward import torch_threads
    from prereg.analysis.interventions.continuation import Hands

    updates = _updates(activations, settings)
    frame = Frame.of(activations, BASELINE)
    _require_dictionary(settings, dictionaries)
    prompts = Prompts.of(activations, frame, dictionaries)
    _require_model(model, activations, prompts)
    dictionaries.ensure([(settings.kind, settings.seed, update) for update in updates], workers)
    sources = [
        Source.of(activations, frame, dictionaries.dictionary(settings.kind, settings.seed, update), update)
        for update in updates
    ]
    hands = Hands(model.model, settings.batch_rows)
    threads = replace(workers, engine="threading")
    with torch_threads(1):
        candidates = _candidates(hands, prompts, sources, settings, threads)
        values, cases, distances = _held_out(hands, prompts, sources, candidates, settings, threads)
        compared = compare(hands.mine, prompts, sources, values, settings.parity_prompts)
    columns = {f"value.{name}": column for name, column in values.items()}
    columns |= {f"cases.{name}": column for name, column in cases.items()}
    side = {
        "candidates": _candidates_table(prompts, sources, candidates),
        "parity": parity_table(compared),
    }
    checks = (parity_check(compared, settings.parity_tolerance), stream_check(distances))
    return Evidence(frame.table(activations, updates, columns), side, checks)


def _updates(activations: Activations, settings: InterventionSettings) -> list[int]:
    found = []
    for name in settings.updates:
        updates = update_set(activations, name, first=0, setting="updates")
        if len(updates) != 1:
            raise AnalysisError(
                f"updates: the update set {name!r} has {len(updates)} updates; an intervention is made after one",
                remedy=f"let [updates.{name}] name a single depth (at_depth)",
            )
        found.append(updates[0])
    if len(set(found)) != len(found):
        raise AnalysisError(
            f"updates: {', '.join(settings.updates)} are updates {', '.join(map(str, found))} of this model; "
            "wanted each once",
            remedy="register depths that differ on a model as shallow as this",
        )
    return sorted(found)


def _require_dictionary(settings: InterventionSettings, dictionaries: Library) -> None:
    if settings.kind not in dictionaries.kinds or settings.seed not in dictionaries.seeds:
        raise AnalysisError(
            f"no {settings.kind} dictionaries of seed {settings.seed} are trained: kinds "
            f"{', '.join(dictionaries.kinds)}, seeds {', '.join(map(str, dictionaries.seeds))}",
            remedy="let `kind` and `seed` be among those of [analyses.dictionaries]",
        )


def _require_model(model: LoadedModel, activations: Activations, prompts: Prompts) -> None:
    from prereg.activations.capture.forward import require_usable

    found = (model.n_layers, model.d_model)
    wanted = (activations.n_layers, int(activations.resid.shape[2]))
    if found != wanted:
        raise AnalysisError(
            f"the model has {found[0]} blocks of width {found[1]}, the activations are of {wanted[0]} of width "
            f"{wanted[1]}: another model was captured"
        )
    largest = max(*prompts.answers, *(max(ids) for ids in prompts.ids))
    require_usable(model.model, max(map(len, prompts.ids)), largest)


def _candidates(
    hands: Hands,
    prompts: Prompts,
    sources: Sequence[Source],
    settings: InterventionSettings,
    workers: Workers,
) -> list[Candidates]:
    wanted = settings.candidates
    pools = [eligible(source, prompts, settings.min_subjects, wanted) for source in sources]
    designers = {s.update: TrainingDesigner(pool) for s, pool in zip(sources, pools, strict=True)}
    found = _run(hands, prompts, prompts.fresh_training, sources, designers, workers, "candidates")
    return [
        choose(source, prompts, pool, found[f"values.{source.update}"].T, wanted)
        for source, pool in zip(sources, pools, strict=True)
    ]


def _held_out(
    hands: Hands,
    prompts: Prompts,
    sources: Sequence[Source],
    candidates: Sequence[Candidates],
    settings: InterventionSettings,
    workers: Workers,
) -> tuple[dict[str, Floats], dict[str, Floats], Floats]:
    """Return values and cases by fit, (n_updates, n_held_out) each, and the streams' distances."""
    features = [chosen.features for chosen in candidates]
    designers = {
        s.update: HeldOutDesigner(chosen, settings) for s, chosen in zip(sources, features, strict=True)
    }
    # Kept results belong to these candidates: after an interruption, rounding might choose others.
    family = digest_of([chosen.tolist() for chosen in features])[:12]
    found = _run(hands, prompts, prompts.held_out, sources, designers, workers, f"effects-{family}")
    names = column_names(settings)
    values, cases = (
        {
            name: np.stack([found[f"{part}.{source.update}"][column] for source in sources])
            for column, name in enumerate(names)
        }
        for part in ("values", "cases")
    )
    values["clean"] = np.stack([found["clean"]] * len(sources))
    distances = np.stack([found[f"stream.{source.update}"] for source in sources])
    return values, {name: column for name, column in cases.items() if name not in CONTEXT}, distances


def _run(
    hands: Hands,
    prompts: Prompts,
    chosen: Indices,
    sources: Sequence[Source],
    designers: Mapping[int, Designer],
    workers: Workers,
    label: str,
) -> Arrays:
    """Measure `chosen` in chunks and put the results together, last axis in the order of `chosen`."""
    parts = chunks(prompts, chosen)
    tasks = [
        Task(
            f"interventions-{label}-{number:04d}",
            effects,
            {"hands": hands, "prompts": prompts, "chunk": part, "sources": sources, "designers": designers},
        )
        for number, part in enumerate(parts)
    ]
    done = list(workers.map(tasks, f"interventions: {label.partition('-')[0]}").values())
    order = np.argsort(np.concatenate(parts))
    return {name: np.concatenate([one[name] for one in done], axis=-1)[..., order] for name in done[0]}


def _candidates_table(
    prompts: Prompts, sources: Sequence[Source], candidates: Sequence[Candidates]
) -> pa.Table:
    rows = []
    for source, chosen in zip(sources, candidates, strict=True):
        for rank, feature in enumerate(chosen.features.tolist()):
            met = [p for p in prompts.held_out if source.norms[p, feature] > 0.0]
            rows.append(
                {
                    "update": source.update,
                    "rank": rank,
                    "fit": feature_name(rank),
                    "feature": feature,
                    "training_effect": float(chosen.effects[rank]),
                    "training_prompts": int(chosen.prompts[rank]),
                    "training_subjects": int(chosen.subjects[rank]),
                    "training_norm": float(chosen.norms[rank]),
                    "held_out_prompts": len(met),
                    "held_out_subjects": len({prompts.subjects[p] for p in met}),
                }
            )
    return pa.Table.from_pylist(rows, schema=_CANDIDATES)


_CANDIDATES = pa.schema(
    [
        ("update", pa.int16()),
        ("rank", pa.int16()),
        ("fit", pa.string()),
        ("feature", pa.int32()),
        ("training_effect", pa.float64()),
        ("training_prompts", pa.int32()),
        ("training_subjects", pa.int32()),
        ("training_norm", pa.float64()),
        ("held_out_prompts", pa.int32()),
        ("held_out_subjects", pa.int32()),
    ]
)
"""Side table ``candidates``. ``training_norm`` is the mean norm of the contribution where active, raw units."""
