"""What capture costs: time beside a bare forward pass and other tools, and memory beside the model.

    python benchmarks/capture.py time FOLDER [--write]
    python benchmarks/capture.py memory FOLDER [--write]

FOLDER is a checkpoint as transformers writes it. Variants run interleaved, on the same batches, one thread;
a ratio is the median over rounds of a variant's time over that round's bare pass. CPU seconds are given
beside wall seconds, since they don't suffer from a busy machine. nnsight is measured where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

RESULTS = Path(__file__).parent / "results" / "capture.csv"
FIELDS = (
    "measure",
    "variant",
    "prompts",
    "wall_s",
    "cpu_s",
    "ratio_wall",
    "ratio_cpu",
    "mb",
    "wanted",
    "machine",
)


def make_prompts(n: int, shortest: int, longest: int, vocabulary: int) -> Any:
    from prereg.activations.capture import TokenizedPrompts

    rng = np.random.default_rng(0)
    lengths = rng.integers(shortest, longest + 1, size=n)
    ids = tuple(tuple(rng.integers(10, vocabulary, size=k).tolist()) for k in lengths)
    return TokenizedPrompts(ids, None, tuple(map(str, range(n))))


def load(folder: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


def measure_time(folder: str, n: int, rounds: int) -> list[dict[str, Any]]:
    from prereg.activations.capture.parity import check_parity
    from prereg.activations.capture.plan import make_plan
    from prereg.activations.capture.run import _row_bytes
    from prereg.activations.capture.sites import find_sites
    from prereg.activations.store import CaptureRequest

    model, request = load(folder), CaptureRequest()
    prompts = make_prompts(n, 6, 22, model.config.vocab_size)
    sites = find_sites(model)
    plan = make_plan(prompts, request, _row_bytes(request, sites))
    batches = [[prompts.ids[i] for i in batch] for block in plan.blocks for batch in block.batches]
    clock = Clock()
    with clock.of("parity gate"):
        check_parity(model, sites, prompts, request.token_budget)
    variants: dict[str, Callable[[], None]] = {
        "bare forward": lambda: bare(model, batches),
        "capture": lambda: captured(model, prompts, request),
        "run_with_cache, names filter": bridged(model, batches, sites),
    }
    if importlib.util.find_spec("nnsight"):
        variants["nnsight trace"] = traced(model, batches, sites)
    else:
        print("nnsight is not installed here: not measured")
    for _ in range(rounds):
        for name, run in variants.items():
            with clock.of(name):
                run()
    return clock.rows(n)


def bare(model: Any, batches: list[list[tuple[int, ...]]]) -> None:
    import torch

    from prereg.activations.capture.forward import last_logits, readout

    with torch.inference_mode():
        for batch in batches:
            readout(last_logits(model, batch), None)


def captured(model: Any, prompts: Any, request: Any) -> None:
    """Everything but the gate, which is measured apart: hooks, checks, hashes, forced writes."""
    from prereg.activations.capture import capture, parity

    gate, parity.check_parity = parity.check_parity, lambda *_: parity.Parity(0, 0.0, "", None, None, 0.0)
    root = Path(tempfile.mkdtemp())
    try:
        capture(model, None, prompts, request, root=root, model_digest="benchmark", provenance={})
    finally:
        parity.check_parity = gate
        shutil.rmtree(root)


def padded(batch: list[tuple[int, ...]]) -> tuple[Any, Any, list[int]]:
    import torch

    lengths = [len(ids) for ids in batch]
    inputs = torch.zeros((len(batch), max(lengths)), dtype=torch.int64)
    for row, ids in enumerate(batch):
        inputs[row, : len(ids)] = torch.tensor(ids)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return inputs, mask.long(), lengths


def bridged(model: Any, batches: list[list[tuple[int, ...]]], sites: Any) -> Callable[[], None]:
    import torch

    from prereg.activations.capture.parity import _boot
    from prereg.activations.capture.sites import site_names

    bridge, names = _boot(model), list(site_names(("resid",), sites.n_layers))

    def run() -> None:
        with torch.inference_mode():
            for batch in batches:
                inputs, mask, lengths = padded(batch)
                _, cache = bridge.run_with_cache(inputs, names_filter=names, attention_mask=mask)
                last = torch.tensor(lengths) - 1
                torch.stack([cache[name][torch.arange(len(batch)), last] for name in names])

    return run


def traced(model: Any, batches: list[list[tuple[int, ...]]], sites: Any) -> Callable[[], None]:
    import nnsight
    import torch

    wrapped = nnsight.NNsight(model)
    name = next(n for n, m in model.named_modules() if m is sites.blocks[0]).rsplit(".", 1)[0]

    def run() -> None:
        blocks: Any = wrapped
        for part in name.split("."):
            blocks = getattr(blocks, part)
        with torch.inference_mode():
            for batch in batches:
                inputs, mask, lengths = padded(batch)
                rows, last = torch.arange(len(batch)), torch.tensor(lengths) - 1
                with wrapped.trace(inputs, attention_mask=mask):
                    # What a trace computes is lost unless it is saved by name.
                    saved = nnsight.save([first(block.output)[rows, last] for block in blocks])
                torch.stack(list(saved))

    return run


def first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


class Clock:
    """Wall and CPU seconds of each variant, round by round."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}
        self._name = ""
        self._start = (0.0, 0.0)

    def of(self, name: str) -> Clock:
        """Time the next block under this name."""
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = (time.perf_counter(), time.process_time())

    def __exit__(self, *_: object) -> None:
        wall, cpu = time.perf_counter() - self._start[0], time.process_time() - self._start[1]
        self.wall.setdefault(self._name, []).append(wall)
        self.cpu.setdefault(self._name, []).append(cpu)
        print(f"{self._name:32s} wall {wall:7.2f} s   cpu {cpu:7.2f} s", flush=True)

    def rows(self, prompts: int) -> list[dict[str, Any]]:
        """Return medians, and the median ratio to the bare pass of the same round."""
        rows = []
        for name, walls in self.wall.items():
            row = {
                "measure": "time",
                "variant": name,
                "prompts": prompts,
                "wall_s": f"{statistics.median(walls):.2f}",
                "cpu_s": f"{statistics.median(self.cpu[name]):.2f}",
                "wanted": "ratio <= 1.15" if name == "capture" else "",
            }
            if name != "parity gate":
                row["ratio_wall"] = ratio(walls, self.wall["bare forward"])
                row["ratio_cpu"] = ratio(self.cpu[name], self.cpu["bare forward"])
            rows.append(row)
        return rows


def ratio(times: list[float], base: list[float]) -> str:
    return f"{statistics.median(a / b for a, b in zip(times, base, strict=True)):.3f}"


MEMORY_CASES = (("model alone", 64), ("capture", 2_000), ("capture", 50_000))


def measure_memory(folder: str, cases: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
    """Each case in a process of its own; prompts are short, since the number of them is what matters."""
    rows: list[dict[str, Any]] = []
    alone = 0.0
    for variant, n in cases:
        start = time.perf_counter()
        command = [sys.executable, __file__, "one", folder, variant, str(n)]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024
        alone = peak if variant == "model alone" else alone
        over = peak - alone
        print(
            f"{variant:12s} {n:6d} prompts: peak {peak:7.0f} MB, {over:+7.0f} MB over the model", flush=True
        )
        rows.append(
            {
                "measure": "peak memory" if variant == "model alone" else "memory over the model",
                "variant": variant,
                "prompts": n,
                "wall_s": f"{time.perf_counter() - start:.0f}",
                "mb": f"{peak if variant == 'model alone' else over:.0f}",
                "wanted": "" if variant == "model alone" else "< 500",
            }
        )
    return rows


def one_memory_case(folder: str, variant: str, n: int) -> None:
    from transformers import AutoTokenizer

    from prereg.activations.capture import CaptureRequest, TokenizedPrompts, capture

    model = load(folder)
    # A sound beginning: on random tokens alone float32 errs by as much as the parity gate allows.
    start = tuple(AutoTokenizer.from_pretrained(folder, local_files_only=True)("The capital of")["input_ids"])
    ends = make_prompts(n, 2, 2, model.config.vocab_size)
    prompts = TokenizedPrompts(tuple(start + ids for ids in ends.ids), None, ends.prompt_ids)
    if variant == "model alone":
        bare(model, [list(prompts.ids[i : i + 11]) for i in range(0, n, 11)])
    else:
        with tempfile.TemporaryDirectory() as root:
            capture(
                model,
                None,
                prompts,
                CaptureRequest(),
                root=Path(root),
                model_digest="benchmark",
                provenance={},
            )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def write(measure: str, rows: list[dict[str, Any]]) -> None:
    """Replace this mode's rows in the results, and keep the other's."""
    kept = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as handle:
            kept = [
                row for row in csv.DictReader(handle) if (row["measure"] == "time") != (measure == "time")
            ]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept + [row | {"machine": machine("torch")} for row in rows])


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        folder, variant, n = sys.argv[2:]
        one_memory_case(folder, variant, int(n))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measure", choices=("time", "memory"))
    parser.add_argument("folder", help="a checkpoint folder, as transformers writes it")
    parser.add_argument("--prompts", type=int, default=128, help="prompts for the timing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=50_000, help="prompts of the largest memory case")
    parser.add_argument("--write", action="store_true", help=f"store the result in {RESULTS.name}")
    asked = parser.parse_args()
    if asked.measure == "time":
        rows = measure_time(asked.folder, asked.prompts, asked.rounds)
    else:
        rows = measure_memory(asked.folder, tuple(c for c in MEMORY_CASES if c[1] <= asked.most))
    for row in rows:
        print({name: value for name, value in row.items() if value})
    if asked.write:
        write(asked.measure, rows)


if __name__ == "__main__":
    main()
