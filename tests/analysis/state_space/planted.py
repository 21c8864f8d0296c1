"""Streams drawn from a known depth-varying state-space model, and a library that knows their codes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prereg.activations.view import Activations
from prereg.analysis.state_space import StateSpaceSettings

F, D_MODEL, N_LAYERS, STATE = 10, 8, 7, 2
FIRST = 2
PENALTIES = tuple(float(f"{10.0**e:.6g}") for e in np.arange(-6, 2.1, 1.0))

SETTINGS = StateSpaceSettings(
    baseline="relation",
    updates="stack",
    dictionary_seed=1,
    kinds=("topk",),
    state=STATE,
    rank=3,
    grid=((1, 2),),
    horizon=3,
    penalties=PENALTIES,
    state_weights=(0.0, 0.1, 1.0, 10.0, 1000.0),
    edge_tolerance=0.01,
    folds=4,
    fold_seed=5,
    shuffles=1,
    shuffle_seed=6,
    max_gap=2,
    jackknife_groups=10,
    jackknife_seed=8,
    level=0.95,
    min_stratum_prompts=2,
)


@dataclass(frozen=True, slots=True, eq=False)
class KnownCodes:
    """A dictionary that looks codes up by the update they belong to."""

    known: dict[bytes, np.ndarray]
    n_features: int

    def codes(self, delta: np.ndarray) -> np.ndarray:
        return np.stack([self.known[row.tobytes()] for row in delta])


@dataclass(frozen=True, slots=True, eq=False)
class KnownLibrary:
    """A library of planted codes; all prompts are fresh but those it is told of."""

    codes: np.ndarray
    activations: Activations
    seen: np.ndarray | None = None
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def fresh(self, activations: Activations) -> np.ndarray:
        assert activations is self.activations
        return np.ones(len(activations.prompts), dtype=bool) if self.seen is None else ~self.seen

    def ensure(self, wanted, workers) -> None:
        del workers
        self.asked.extend(wanted)

    def dictionary(self, kind: str, seed: int, update: int) -> KnownCodes:
        assert (kind, seed, update) in self.asked
        rows = self.activations.update(update)
        return KnownCodes(
            {row.tobytes(): z for row, z in zip(rows, self.codes[update], strict=True)}, self.codes.shape[2]
        )


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """s[l+1] = A_l s[l] + B_l z[l], y[l] = C_l s[l] + D_l z[l] + noise."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray

    @classmethod
    def draw(cls, seed: int, decay: float = 0.7, feedthrough: float = 1.0, path: float = 1.0) -> System:
        rng = np.random.default_rng(seed)
        turns = [np.linalg.qr(rng.standard_normal((STATE, STATE)))[0] for _ in range(N_LAYERS)]
        return cls(
            decay * np.stack(turns),
            path * rng.standard_normal((N_LAYERS, STATE, F)) / np.sqrt(F),
            rng.standard_normal((N_LAYERS, D_MODEL, STATE)),
            feedthrough * rng.standard_normal((N_LAYERS, D_MODEL, F)) / np.sqrt(F),
        )

    def markov(self, update: int, source: int) -> np.ndarray:
        """Return M[l, j], (d_model, F)."""
        carried = self.B[source]
        for layer in range(source + 1, update):
            carried = self.A[layer] @ carried
        return self.C[update] @ carried


def world(
    system: System,
    n_subjects: int = 120,
    templates: int = 2,
    noise: float = 0.5,
    seed: int = 0,
    common: float = 0.0,
    added: np.ndarray | None = None,
) -> tuple[Activations, KnownLibrary]:
    """Draw a stream; a third of the subjects is held out.

    `common` is the share of the codes' variance that all updates of a prompt share: correlation without a path.
    `added`, (N_LAYERS, n, F), is put on top of them.
    """
    rng = np.random.default_rng([seed, 77])
    who = [(s, t) for s in range(n_subjects) for t in range(templates)]
    n = len(who)
    relation = np.array([s % 2 for s, _ in who])
    shared = rng.standard_normal((n, F))
    z = np.sqrt(common) * shared + np.sqrt(1 - common) * rng.standard_normal((N_LAYERS, n, F))
    if added is not None:
        z = z + added
    state = np.zeros((n, STATE))
    v = np.zeros((N_LAYERS + 1, n, D_MODEL))
    for layer in range(N_LAYERS):
        delta = state @ system.C[layer].T + z[layer] @ system.D[layer].T
        delta += noise * rng.standard_normal((n, D_MODEL)) + rng.standard_normal((2, D_MODEL))[relation]
        v[layer + 1] = v[layer] + delta
        state = state @ system.A[layer].T + z[layer] @ system.B[layer].T
    activations = Activations(
        prompts=tuple(f"p{s:04d}-{t}" for s, t in who),
        subjects=tuple(f"s{s:04d}" for s, _ in who),
        relations=tuple(f"r{r}" for r in relation),
        templates=tuple(f"t{t}" for _, t in who),
        held_out=np.array([s % 6 in (2, 3) for s, _ in who]),
        resid=v.astype(np.float32),
        update_sets={"stack": tuple(range(FIRST, N_LAYERS)), "from_zero": tuple(range(N_LAYERS))},
    )
    return activations, KnownLibrary(z, activations)


def r2(evidence, fit: str) -> float:
    """Return the mean over updates of the held-out R2."""
    table = evidence.table
    found = []
    for layer in sorted(set(table["update"].to_pylist())):
        here = table["update"].to_numpy() == layer
        found.append(1 - table[f"sse.{fit}"].to_numpy()[here].sum() / table["sst"].to_numpy()[here].sum())
    return float(np.mean(found))
