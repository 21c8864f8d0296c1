"""What the logit lens reads at each depth: the fact's answer, and others that the question could have had.

The final norm and the head are applied to the residual stream after each block (nostalgebraist 2020, "interpreting GPT:
the logit lens"). Columns, a row for each held-out prompt and update l, which is the stream v[l+1] after block l:

``value.correct``
    1 where no token is likelier than the answer's first one, else 0.
``value.answer``
    log p(the answer's first token), nats.
``value.others``
    The mean of that over answers of other subjects to the same question: what is not about this subject.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from prereg.analysis.authoring import (
    Activations,
    AnalysisError,
    Check,
    Evidence,
    Seed,
    Settings,
    Task,
    Workers,
    held_out_table,
    read_stream,
)

if TYPE_CHECKING:
    from prereg.activations.models import LoadedModel


class LensSettings(Settings):
    """What the protocol says about the lens.

    Parameters
    ----------
    others
        Answers of other subjects that each answer is compared with.
    seed
        Draws them.
    """

    others: Annotated[int, Field(ge=1)]
    seed: Seed


def fit_names(settings: LensSettings) -> frozenset[str]:
    """Return the fits that a claim may name."""
    del settings
    return frozenset({"correct", "answer", "others"})


def measure(
    activations: Activations, settings: LensSettings, workers: Workers, *, model: LoadedModel, twin: bool
) -> Evidence:
    """Read the stream of every held-out prompt after every block; nothing is fit, so training prompts play no part.

    Raises
    ------
    AnalysisError
        If answers have no tokens, or a question has too few other answers.
    """
    held_out = np.flatnonzero(activations.held_out)
    tokens = draw_tokens(activations, settings)[held_out]
    tasks = [
        Task(
            f"update-{layer:03d}",
            read_layer,
            {"model": model, "stream": activations.resid[layer + 1][held_out], "tokens": tokens},
        )
        for layer in range(activations.n_layers)
    ]
    # The model stays in this process.
    read = list(replace(workers, jobs=1).map(tasks, "lens").values())
    columns = {name: np.stack([layer[name] for layer in read], axis=1) for name in read[0]}
    checks = () if twin else (last_reading(columns["value.correct"][:, -1]),)
    return Evidence(held_out_table(activations, columns), {}, checks)


def read_layer(*, model: LoadedModel, stream: np.ndarray, tokens: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of one update, (n_held_out,) each; the answer's token comes first in `tokens`."""
    readings = read_stream(model, stream, tokens)
    return {
        "value.correct": (readings.rank[:, 0] == 0).astype(np.float64),
        "value.answer": readings.log_probability[:, 0],
        "value.others": readings.log_probability[:, 1:].mean(axis=1),
    }


def draw_tokens(activations: Activations, settings: LensSettings) -> np.ndarray:
    """Return each prompt's answer and others to its question, by their first tokens, (n, 1 + others).

    They don't depend on the order that prompts come in.
    """
    if activations.answer_ids is None:
        raise AnalysisError("the answers of these prompts have no first token of their own")
    own = dict(zip(activations.prompts, activations.answer_ids.tolist(), strict=True))
    relation_of = dict(zip(activations.prompts, activations.relations, strict=True))
    rng = np.random.default_rng(settings.seed)
    drawn = {}
    for prompt in sorted(own):
        relation = relation_of[prompt]
        rest = sorted({own[other] for other in own if relation_of[other] == relation} - {own[prompt]})
        if len(rest) < settings.others:
            raise AnalysisError(f"{relation}: {len(rest)} other answers are known, wanted {settings.others}")
        drawn[prompt] = [own[prompt], *rng.choice(rest, settings.others, replace=False).tolist()]
    return np.array([drawn[prompt] for prompt in activations.prompts])


def last_reading(correct: np.ndarray) -> Check:
    """Check that after the last block the lens reads what the model answers: the facts were chosen as known ones."""
    share = float(correct.mean())
    return Check(
        name="last_reading", passed=share > 0.99, detail=f"read as answered after the last block: {share:.4f}"
    )
