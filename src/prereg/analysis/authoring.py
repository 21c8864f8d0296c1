"""What an analysis of one's own is written with; see the guide, "An analysis of your own".

An analysis is a settings model and one function::

    class LensSettings(Settings):
        updates: Name

    def measure(activations: Activations, settings: LensSettings, workers: Workers) -> Evidence:
        ...

It lies in ``<name>.py`` beside a study's gates, or in a package with an entry point in the group ``prereg.analyses``;
``[analyses.<name>]`` of the protocol holds its settings. `prereg.analysis.own` says how it is found and pinned.

The rules are those of every analysis here. It learns from training prompts alone, and its table is about held-out ones
alone. Its numbers depend on its arguments and nothing else: no clock, no global random state, no file. What it verifies
about its own working it says in a `Check`: a failed one makes a verdict invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prereg.activations.view import Activations, Tokens
from prereg.analysis.checks import update_set
from prereg.analysis.frame import Floats, lay_out
from prereg.analysis.lens import Readings, read_stream
from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.analysis.settings import Name, Seed, Settings
from prereg.errors import AnalysisError, StudyError
from prereg.evidence import Check, Evidence
from prereg.workers import Arrays, Task, Workers

__all__ = [
    "Activations",
    "AnalysisError",
    "Arrays",
    "Check",
    "Evidence",
    "Name",
    "Readings",
    "Seed",
    "Settings",
    "Task",
    "Tokens",
    "Workers",
    "held_out_table",
    "load_analysis",
    "random_activations",
    "read_stream",
    "update_set",
]


def held_out_table(
    activations: Activations, columns: Mapping[str, Floats], *, updates: Sequence[int] | None = None
) -> pa.Table:
    """Lay columns out as the main table of evidence.

    Parameters
    ----------
    activations
        What was measured.
    columns
        Name -> (n_held_out, k) float64, prompts in the activations' order (``values[activations.held_out]``).
        ``value.<fit>`` for a number of its own; ``sst`` and ``sse.<fit>`` for squared errors that give an R2.
    updates
        The k updates l that the columns are about; all of them where none is given.

    Raises
    ------
    AnalysisError
        If a column has another shape.
    """
    at = list(range(activations.n_layers)) if updates is None else list(updates)
    prompts = np.flatnonzero(activations.held_out)
    for name, values in columns.items():
        if np.shape(values) != (len(prompts), len(at)):
            raise AnalysisError(
                f"the column {name} has shape {np.shape(values)}; wanted one number for each of "
                f"{len(prompts)} held-out prompts and {len(at)} updates"
            )
    arrays = {name: np.asarray(values, np.float64) for name, values in columns.items()}
    return lay_out(activations, prompts, at, arrays)


def load_analysis(file: Path | str) -> ModuleType:
    """Return an analysis that lies beside a protocol as a module, as a study would: for its tests.

    Parameters
    ----------
    file
        ``gates/<study>/<name>.py``.

    Raises
    ------
    StudyError
        If it isn't there, or is no analysis.
    """
    path = Path(file)
    spec = find_analysis(path.stem, path.parent)
    if not isinstance(spec, OwnAnalysis) or not spec.is_beside:
        raise StudyError(f"{path}: there is no analysis in this file", remedy="give the path of one")
    return spec.load()


def random_activations(
    *,
    n_subjects: int = 24,
    n_layers: int = 4,
    d_model: int = 8,
    seed: int = 0,
    resid: npt.ArrayLike | None = None,
) -> Activations:
    """Return made-up activations to test an analysis on: nothing in them is related, unless `resid` says otherwise.

    Two relations of two templates each; every subject is asked both templates of its relation, and every third one is
    held out. The one set of updates is ``whole_stack``.

    Parameters
    ----------
    n_subjects, n_layers, d_model
        How many; two prompts a subject.
    seed
        Of the noise.
    resid
        (n_layers + 1, 2 * n_subjects, d_model), prompts of one subject side by side; standard normal by default.
    """
    who = [(subject, template) for subject in range(n_subjects) for template in range(2)]
    noise = np.random.default_rng(seed).standard_normal((n_layers + 1, len(who), d_model))
    return Activations(
        prompts=tuple(f"p{subject:03d}-{template}" for subject, template in who),
        subjects=tuple(f"s{subject:03d}" for subject, _ in who),
        relations=tuple(f"r{subject % 2}" for subject, _ in who),
        templates=tuple(f"t{template}" for _, template in who),
        held_out=np.array([subject % 6 in (2, 3) for subject, _ in who]),
        resid=np.asarray(noise if resid is None else resid, np.float32),
        update_sets={"whole_stack": tuple(range(n_layers))},
        answers=tuple(f"a{subject}" for subject, _ in who),
        answer_ids=np.array([subject for subject, _ in who], np.int64),
    )
