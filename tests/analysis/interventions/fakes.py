"""Dictionaries whose features are known, and activations of a tiny model at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prereg.activations.models import LoadedModel
from prereg.activations.view import Activations, Tokens
from prereg.workers import Workers


@dataclass(frozen=True)
class FakeDictionary:
    """Rectified projections on given unit rows, of updates divided by a scale, as a trained one would have it."""

    directions: np.ndarray
    scale: float
    bias: np.ndarray
    k: int | None = None

    @property
    def n_features(self) -> int:
        """Width."""
        return len(self.directions)

    def codes(self, delta: np.ndarray) -> np.ndarray:
        """Return rectified projections; the k largest where k is given."""
        found = np.maximum(delta / self.scale @ self.directions.T, 0.0)
        if self.k is not None:
            found[found < np.sort(found, axis=1)[:, [-self.k]]] = 0.0
        return found

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return raw reconstructions."""
        return self.scale * (codes @ self.directions) + self.bias

    def contribution(self, codes: np.ndarray, features: Any) -> np.ndarray:
        """Return what features add, raw."""
        return self.scale * (codes[:, features] @ self.directions[features])


@dataclass
class FakeLibrary:
    """Dictionaries given by update; prompts of the `seen` subjects trained them."""

    of: dict[int, FakeDictionary]
    seen: frozenset[str] = frozenset()
    seeds: tuple[int, ...] = (7,)
    kinds: tuple[str, ...] = ("topk",)

    def fresh(self, activations: Activations) -> np.ndarray:
        """Return which prompts are of subjects that were not seen."""
        return np.array([subject not in self.seen for subject in activations.subjects])

    def ensure(self, wanted: Sequence[tuple[Any, int, int]], workers: Workers) -> None:
        """Refuse what isn't there."""
        del workers
        assert all(update in self.of for _, _, update in wanted)

    def dictionary(self, kind: str, seed: int, update: int) -> FakeDictionary:
        """Return it."""
        assert (kind in self.kinds, seed in self.seeds) == (True, True)
        return self.of[update]


def loaded(model: Any) -> LoadedModel:
    """Wrap a model; nothing here asks for its tokenizer or identity."""
    config = model.config
    nothing: Any = None
    return LoadedModel(
        model, nothing, nothing, config.num_hidden_layers, config.hidden_size, "float32", "cpu", "sdpa", False
    )


def observe(
    model: Any,
    ids: Sequence[Sequence[int]],
    answers: Sequence[int],
    subjects: Sequence[str],
    held_out: np.ndarray,
    sets: dict[str, tuple[int, ...]],
) -> Activations:
    """Run every prompt alone and keep its stream at every position."""
    import torch

    from prereg.activations.capture.sites import find_sites

    blocks = find_sites(model).blocks
    seen: dict[int, torch.Tensor] = {}

    def keep(layer: int) -> Any:
        def hook(_module: object, args: Any, kwargs: Any, output: Any) -> None:
            if layer == 0:
                seen[0] = args[0] if args else kwargs["hidden_states"]
            seen[layer + 1] = output[0] if isinstance(output, tuple) else output

        return hook

    handles = [b.register_forward_hook(keep(i), with_kwargs=True) for i, b in enumerate(blocks)]
    streams = []
    with torch.inference_mode():
        for one in ids:
            model(input_ids=torch.tensor([list(one)]), use_cache=False)
            streams.append(np.stack([seen[layer][0].numpy() for layer in range(len(blocks) + 1)]))
    for handle in handles:
        handle.remove()
    n = len(ids)
    return Activations(
        prompts=tuple(f"p{i:04d}" for i in range(n)),
        subjects=tuple(subjects),
        relations=("r",) * n,
        templates=("t",) * n,
        held_out=held_out,
        resid=np.stack([s[:, -1] for s in streams], axis=1),
        update_sets=sets,
        answers=tuple(map(str, answers)),
        answer_ids=np.array(answers, np.int64),
        tokens=Tokens(
            ids=tuple(tuple(one) for one in ids),
            subjects=tuple(subjects),
            stream=np.concatenate(streams, axis=1),
            selected=np.arange(n),
        ),
    )
