"""What training a TopK dictionary costs, beside SAELens and dictionary-learning.

    python benchmarks/dictionaries.py [--rounds 3] [--envs FOLDER] [--write]

Same rows, same shape, same number of steps and rows in each, one thread, a CPU. Each peer runs in an environment of
its own, made with pip in `--envs` (a temporary folder where none is given), since SAELens needs another
transformer-lens than prereg. All take turns, a process each: what else the machine does falls on all alike. Timed is
training alone, after a few steps that warm up; `cpu_s` is that process' own time. Each round has another learning rate
(the same schedule for all), and the explained variance of rows that were held out is the best over rounds: a peer is
not held to a rate that suits it badly. Ratios are medians over rounds, of CPU time. SAELens' sparse activations don't
work on a CPU while it rescales them by the decoder's norm, its default, so that is off in that row.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

RESULTS = Path(__file__).parent / "results" / "dictionaries.csv"
SHAPES = {
    "study": {"d": 576, "width": 512, "k": 32, "batch": 256, "steps": 400},
    "wide": {"d": 576, "width": 2304, "k": 32, "batch": 2048, "steps": 30},
}
PEERS = {
    "prereg": None,
    "SAELens": ("sae-lens==6.54.12", "torch==2.13.0"),
    "SAELens, sparse activations": ("sae-lens==6.54.12", "torch==2.13.0"),
    "dictionary-learning": ("dictionary-learning==0.1.0", "torch==2.13.0"),
}
RATES = (3e-3, 5e-3, 1e-2)
N_ROWS, HELD_OUT, WARM = 20_000, 2_000, 5
DECAY = 0.4


def main() -> None:
    """Measure, print, and write where asked; or be the process that trains."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=len(RATES))
    parser.add_argument("--envs", type=Path, help="where the peers' environments are, or are made")
    parser.add_argument("--write", action="store_true", help=f"replace {RESULTS.name}")
    parser.add_argument("--child", nargs=2, metavar=("PEER", "JSON"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(asked.child[0], json.loads(asked.child[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        pythons = {name: environment(asked.envs or Path(folder), needs) for name, needs in PEERS.items()}
        rows = measure(pythons, Path(folder), asked.rounds)
    for row in rows:
        print(
            f"{row['shape']:6s} {row['trainer']:28s} {row['rows_per_cpu_s']:>8s} rows/s   "
            f"x {row['ratio_cpu']:>5s}   explained {row['explained']}"
        )
    if asked.write:
        with RESULTS.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def environment(folder: Path, needs: tuple[str, ...] | None) -> str:
    """Return a python that has `needs`, in an environment of its own; our own where there are none."""
    if needs is None:
        return sys.executable
    place = folder / needs[0].partition("==")[0]
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(python), "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", *needs], check=True)
        # A peer's dependency may bring a torchvision of another torch, which then can't be imported.
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "torchvision"], check=True)
    return str(python)


def measure(pythons: dict[str, str], folder: Path, rounds: int) -> list[dict[str, str]]:
    """Return one row for each shape and trainer."""
    rows = []
    for shape, sizes in SHAPES.items():
        data = folder / f"{shape}.npy"
        np.save(data, planted(sizes["d"]))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
        for turn in range(rounds):
            for name, python in pythons.items():
                task = {**sizes, "data": str(data), "rate": RATES[turn % len(RATES)]}
                found[name].append(run(python, name, task))
                print(shape, name, found[name][-1], file=sys.stderr)
        for name, runs in found.items():
            ratios = [
                theirs["cpu_s"] / ours["cpu_s"] for ours, theirs in zip(found["prereg"], runs, strict=True)
            ]
            seconds = statistics.median(one["cpu_s"] for one in runs)
            rows.append(
                {
                    "shape": shape,
                    **{key: str(value) for key, value in sizes.items()},
                    "trainer": name,
                    "wall_s": f"{statistics.median(one['wall_s'] for one in runs):.2f}",
                    "cpu_s": f"{seconds:.2f}",
                    "rows_per_cpu_s": f"{sizes['batch'] * sizes['steps'] / seconds:.0f}",
                    "ratio_cpu": f"{statistics.median(ratios):.2f}",
                    "explained": f"{max(one['explained'] for one in runs):.4f}",
                    "load": f"{os.getloadavg()[0]:.1f}",
                    "machine": machine("torch"),
                }
            )
    return rows


def run(python: str, name: str, task: dict[str, Any]) -> dict[str, float]:
    """Train once, in a process of its own, with one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [python, str(Path(__file__).resolve()), "--child", name, json.dumps(task)],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def planted(d: int) -> np.ndarray:
    """Return rows made of some of many directions, and a little noise: mean 0, unit spread."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((1024, d)).astype(np.float32)
    rows = np.empty((N_ROWS, d), np.float32)
    for row in rows:
        chosen = rng.choice(1024, 24, replace=False)
        row[:] = np.abs(rng.standard_normal(24)).astype(np.float32) @ directions[chosen]
    rows += 0.3 * rows.std() * rng.standard_normal(rows.shape, dtype=np.float32)
    rows -= rows.mean(axis=0)
    return rows / rows.std()


# -- the process that trains ------------------------------------------------------------------------------


def child(name: str, task: dict[str, Any]) -> dict[str, float]:
    """Train as told, and say how long it took and what it explains of the held-out rows."""
    import torch

    torch.set_num_threads(1)
    rows = np.load(task["data"], allow_pickle=False)
    training, held_out = rows[HELD_OUT:], rows[:HELD_OUT]
    trainer = {"prereg": with_prereg, "dictionary-learning": with_dictionary_learning}.get(name, with_saelens)
    if name.endswith("sparse activations"):
        task = {**task, "sparse": True}
    trainer({**task, "steps": WARM}, training)
    wall, cpu = time.perf_counter(), time.process_time()
    reconstruct = trainer(task, training)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    missed = float(np.square(reconstruct(held_out) - held_out).sum())
    total = float(np.square(held_out - held_out.mean(axis=0)).sum())
    return {"wall_s": wall, "cpu_s": cpu, "explained": 1 - missed / total}


def with_prereg(task: dict[str, Any], rows: np.ndarray) -> Any:
    from prereg.analysis.dictionaries import DictionarySettings
    from prereg.analysis.dictionaries.rows import Rows
    from prereg.analysis.dictionaries.training import train

    settings = DictionarySettings(
        baseline="template",
        updates="all",
        kinds=("topk",),
        seeds=(0,),
        width=task["width"],
        k=task["k"],
        steps=max(task["steps"], 10),
        batch=task["batch"],
        learning_rate=task["rate"],
        decay_share=DECAY,
        norm_cap=10.0,
        dead_after=100,
        auxiliary_k=task["d"] // 2,
        auxiliary_weight=1 / 32,
        penalty_start=0.5,
        control_share=0.7,
        control_every=5,
        control_gain=0.2,
        control_damping=0.5,
        share=0.5,
        share_seed=0,
        min_stratum_prompts=2,
        l0_tolerance=0.1,
        max_dead_share=0.2,
    )
    made = Rows(rows, rows.mean(axis=0).astype(np.float64), 1.0, 0.0)
    readout = np.zeros(len(rows), dtype=bool)
    dictionary = train(made, readout, settings, kind="topk", seed=0, layer=0).dictionary
    return lambda x: dictionary.decode(dictionary.codes(x))


def with_dictionary_learning(task: dict[str, Any], rows: np.ndarray) -> Any:
    import torch
    from dictionary_learning.trainers.top_k import TopKTrainer

    trainer = TopKTrainer(
        steps=task["steps"],
        activation_dim=task["d"],
        dict_size=task["width"],
        k=task["k"],
        layer=0,
        lm_name="none",
        lr=task["rate"],
        warmup_steps=0,
        decay_start=round(task["steps"] * (1 - DECAY)),
        seed=0,
        device="cpu",
    )
    for step, x in zip(range(task["steps"]), batches(torch.from_numpy(rows), task["batch"]), strict=False):
        trainer.update(step, x)
    return forward(trainer.ae)


def with_saelens(task: dict[str, Any], rows: np.ndarray) -> Any:
    import torch
    from sae_lens.config import SAETrainerConfig
    from sae_lens.saes.topk_sae import TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.training.sae_trainer import SAETrainer

    torch.manual_seed(0)
    config = TopKTrainingSAEConfig(
        d_in=task["d"],
        d_sae=task["width"],
        k=task["k"],
        use_sparse_activations=bool(task.get("sparse")),
        rescale_acts_by_decoder_norm=not task.get("sparse"),
    )
    trainer = SAETrainer(
        SAETrainerConfig(
            total_training_samples=task["steps"] * task["batch"],
            train_batch_size_samples=task["batch"],
            lr=task["rate"],
            lr_end=task["rate"] / 1000,
            lr_decay_steps=round(task["steps"] * DECAY),
            dead_feature_window=100,
        ),
        TopKTrainingSAE(config),
        batches(torch.from_numpy(rows), task["batch"]),
    )
    return forward(trainer.fit())


def forward(model: Any) -> Any:
    """Return a function from rows to their reconstruction."""
    import torch

    def reconstruct(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = model(torch.from_numpy(x)).numpy()
        return found

    return reconstruct


def batches(rows: Any, size: int) -> Iterator[Any]:
    """Give rows in a random order, again and again."""
    import torch

    generator = torch.Generator().manual_seed(0)
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for at in range(0, len(order) - size + 1, size):
            yield rows[order[at : at + size]]


if __name__ == "__main__":
    main()
