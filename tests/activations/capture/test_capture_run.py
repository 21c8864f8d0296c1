"""Runs: interrupted, killed, doubled, damaged, refused - and what is left afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from prereg.activations.capture import CaptureRequest, capture, recompute
from prereg.activations.capture.parity import _spread
from prereg.activations.store import find_store, store_key
from prereg.errors import ActivationsError, StoreCorrupt
from tests.activations.capture.conftest import random_prompts, some_prompts
from tests.tiny_models import VOCAB_SIZE, make_checkpoint

REQUEST = CaptureRequest(stacks=("resid", "mlp_out"), block_rows=6)


class Count:
    """Progress that remembers, and may raise when a number of prompts is done."""

    def __init__(self, stop_at=None, error=KeyboardInterrupt):
        self.stop_at, self.error = stop_at, error
        self.total = self.done = 0
        self.first = None
        self.labels = []
        self.finished = False

    def start(self, total, label):
        self.total = total
        self.labels.append(label)

    def advance(self, n=1):
        if self.labels[-1] != "capture":
            return
        self.first = n if self.first is None else self.first
        self.done += n
        if self.stop_at is not None and self.done >= self.stop_at:
            raise self.error

    def finish(self):
        self.finished = True


def run(model, root, prompts=None, request=REQUEST, progress=None, digest="m"):
    """Capture 24 prompts in four blocks."""
    return capture(
        model,
        None,
        some_prompts() if prompts is None else prompts,
        request,
        root=root,
        model_digest=digest,
        provenance={"registration": "r1"},
        progress=progress,
    )


def test_the_key_is_known_without_the_model(model_of, tmp_path):
    """store_key gives the folder that capture uses, and find_store finds it there."""
    store = run(model_of("gpt2"), tmp_path)
    assert store.key == store_key(some_prompts(), REQUEST, model_digest="m")
    found = find_store(tmp_path, store.key)
    assert found is not None
    assert found.digest == store.digest
    assert found.manifest.provenance == {"registration": "r1"}


def test_progress_counts_every_prompt_once(model_of, tmp_path):
    """A run tells of the gate and of all prompts, a second one of all prompts at once."""
    first, second = Count(), Count()
    run(model_of("gpt2"), tmp_path, progress=first)
    run(model_of("gpt2"), tmp_path, progress=second)
    assert (first.total, first.done, first.first, first.finished) == (24, 24, 0, True)
    assert first.labels == ["checking against transformer-lens", "capture"]
    assert second.labels == ["capture"]
    assert (second.total, second.done, second.first, second.finished) == (24, 24, 24, True)


@pytest.mark.parametrize("stop_at", [1, 7, 13, 24])
def test_ctrl_c_leaves_a_store_that_resumes(model_of, tmp_path, stop_at):
    """Interrupted anywhere, the next run takes up after the last finished block and ends with the same digest."""
    whole = run(model_of("gpt2"), tmp_path / "whole").digest
    with pytest.raises(KeyboardInterrupt):
        run(model_of("gpt2"), tmp_path / "cut", progress=Count(stop_at))
    assert find_store(tmp_path / "cut", store_key(some_prompts(), REQUEST, model_digest="m")) is None
    model = model_of("gpt2")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    resumed = Count()
    store = run(model, tmp_path / "cut", progress=resumed)
    assert resumed.first == (stop_at - 1) // 6 * 6
    assert store.digest == whole


PROGRAM = """
import os, signal, sys
from pathlib import Path
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging
logging.disable_progress_bar()
torch.set_num_threads(1)
from prereg.activations.capture import capture
from prereg.activations.capture import parity
from prereg.activations.store import journal, writer
from tests.activations.capture.conftest import some_prompts
from tests.activations.capture.test_capture_run import REQUEST, Count

folder, root, mode = sys.argv[1:]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if mode == "mid-block":
    Count.advance = lambda self, n=1: die() if len(journal.read_journal(journals[0]).blocks) == 2 else None
if mode == "shared":
    def first(self, n=1, real=Count.advance):
        if self.labels[-1] != "capture":
            return
        print("started", flush=True)
        sys.stdin.readline()
        Count.advance = real
        real(self, n)
    Count.advance = first
if mode == "half-a-line":
    real = writer.append
    def half(file, entry):
        if getattr(entry, "index", None) == 3:
            with file.open("ab") as handle:
                handle.write(journal._line(entry)[:60])
            die()
        real(file, entry)
    writer.append = half
from prereg.activations.store import store_key
journals = [Path(root) / store_key(some_prompts(), REQUEST, model_digest="m") / "journal.jsonl"]
model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
print("ready", flush=True)
progress = Count()
store = capture(model, None, some_prompts(), REQUEST, root=Path(root), model_digest="m",
                provenance={"registration": "r1"}, progress=progress)
print(store.digest, progress.first, flush=True)
"""


def start(folder: Path, root: Path, mode: str) -> subprocess.Popen[str]:
    """Capture in another process."""
    home = Path(__file__).parents[3]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(root), mode],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("mode", "kept"), [("mid-block", 2), ("half-a-line", 3)])
def test_sigkill_loses_one_block_at_most(model_of, tmp_path, mode, kept):
    """Killed in the middle of a block, or of its journal line: the next run resumes."""
    folder = make_checkpoint("gpt2", tmp_path / "model")
    whole = run(model_of("gpt2"), tmp_path / "whole").digest
    process = start(folder, tmp_path / "cut", mode)
    _, errors = process.communicate()
    assert process.returncode == -9, errors
    resumed = Count()
    store = run(model_of("gpt2"), tmp_path / "cut", progress=resumed)
    assert resumed.first == kept * 6
    assert store.digest == whole
    store.verify()


def test_two_captures_of_the_same_thing_make_one(model_of, tmp_path):
    """While another process captures, this one waits; then it finds the finished store and computes nothing."""
    folder = make_checkpoint("gpt2", tmp_path / "model")
    other = start(folder, tmp_path / "stores", "shared")
    assert [other.stdout.readline().strip() for _ in range(2)] == ["ready", "started"]
    mine = Count()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, model_of("gpt2"), tmp_path / "stores", progress=mine)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1)
        assert mine.labels == ["waiting for another capture of the same"]
        output, errors = other.communicate("go on\n")
        assert other.returncode == 0, errors
        store = waiting.result()
    assert mine.first == 24
    assert output.split() == [store.digest, "0"]


def test_a_damaged_block_is_computed_again(model_of, tmp_path):
    """A flipped byte: verify names it, a new capture redoes that block alone, and the digest is what it was."""
    store = run(model_of("gpt2"), tmp_path)
    file = store.folder / "mlp_out.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 128
    file.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=r"mlp_out\.npy, prompt rows 18:24 \(block 3\)"):
        store.verify()
    repaired = Count()
    again = run(model_of("gpt2"), tmp_path, progress=repaired)
    assert repaired.first == 18
    assert again.digest == store.digest
    again.verify()


def test_a_weight_that_is_not_a_number_is_refused_by_the_gate(llama, tmp_path):
    """NaN is never within a limit."""
    with torch.no_grad():
        llama.model.layers[1].mlp.down_proj.weight[0, 0] = torch.nan
    with pytest.raises(ActivationsError, match=r"blocks\.2\.hook_resid_pre"):
        run(llama, tmp_path)


def test_values_that_are_not_finite_are_named(llama, tmp_path):
    """A prompt outside of the gate's sample that gives NaN stops the capture: site, prompt and its text."""
    prompts = random_prompts([4] * 40)
    place = next(i for i in range(20, 40) if i not in _spread(prompts))
    bad = prompts.ids[place]
    with torch.no_grad():
        # Only this prompt holds this token.
        token = next(t for t in bad if sum(t in ids for ids in prompts.ids) == 1)
        llama.model.embed_tokens.weight[token] = torch.inf

    class Words:
        def decode(self, ids):
            return f"text of {ids}"

    with pytest.raises(ActivationsError) as caught:
        capture(llama, Words(), prompts, CaptureRequest(), root=tmp_path, model_digest="m", provenance={})
    message = str(caught.value)
    assert f"hook_resid_pre, prompt 'p{place}'" in message
    assert f"text of {list(bad)}" in message
    assert "wanted finite values" in message


def test_float16_overflow_is_named_and_float32_holds_it(llama, tmp_path):
    """A residual beyond 65504 can't be stored as float16: site, value, limit and the remedy are told."""
    with torch.no_grad():
        llama.model.layers[0].mlp.down_proj.weight.mul_(1e7)
    request = CaptureRequest(dtype="float16")
    with pytest.raises(
        ActivationsError,
        match=r'blocks\.1\.hook_resid_pre, prompt .*float16 holds at most 65504\n.*dtype = "float32"',
    ):
        run(llama, tmp_path, request=request)
    store = run(llama, tmp_path, request=CaptureRequest())
    assert np.abs(store.stack("resid")).max() > 65504


def test_unusable_models_are_refused(llama, tmp_path):
    """Training mode and half precision give no evidence."""
    with pytest.raises(ActivationsError, match=r"training mode[\s\S]*model\.eval\(\)"):
        run(llama.train(), tmp_path)
    with pytest.raises(ActivationsError, match="bfloat16, wanted float32"):
        run(llama.eval().to(torch.bfloat16), tmp_path)


def test_prompts_that_do_not_fit_are_refused(model_of, tmp_path):
    """A prompt longer than the model's context, a token or an answer beyond its vocabulary."""
    model, base = model_of("llama"), random_prompts([3, 3])
    with pytest.raises(ActivationsError, match="the longest prompt has 65 tokens, LlamaForCausalLM takes 64"):
        run(model, tmp_path, random_prompts([65]))
    for ids, answers in (((VOCAB_SIZE,), 1), ((1,), VOCAB_SIZE)):
        wrong = type(base)((ids,), (answers,), ("a",))
        with pytest.raises(ActivationsError, match=f"token id {VOCAB_SIZE} is outside"):
            run(model, tmp_path, wrong)


def test_provenance_must_be_text(model_of, tmp_path):
    """A number in the provenance is refused before anything is computed."""
    with pytest.raises(ActivationsError, match="provenance must be text"):
        capture(
            model_of("gpt2"),
            None,
            some_prompts(),
            REQUEST,
            root=tmp_path,
            model_digest="m",
            provenance={"n": 1},
        )


def test_threads_are_put_back(model_of, tmp_path):
    """A capture uses its own number of threads, records it, and restores the caller's, error or not."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        seen = []

        class Look(Count):
            def advance(self, n=1):
                seen.append(torch.get_num_threads())
                super().advance(n)

        store = run(model_of("gpt2"), tmp_path, progress=Look())
        assert set(seen) == {1}
        assert store.manifest.plan.threads == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(KeyboardInterrupt):
            run(model_of("gpt2"), tmp_path / "b", progress=Count(1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_manifest_records_the_run(model_of, tmp_path):
    """Sites, plan, versions, attention and parity stand in the manifest, as JSON that anyone can read."""
    store = run(model_of("gpt_neox"), tmp_path)
    said = json.loads((store.folder / "manifest.json").read_text())
    assert said["model"] == {
        "architecture": "GPTNeoXForCausalLM",
        "family": "gpt_neox",
        "n_layers": 3,
        "d_model": 32,
        "attn_implementation": "sdpa",
    }
    assert said["sites"][3] == "blocks.2.hook_resid_post"
    assert said["plan"]["blocks"] == 4
    assert said["parity"]["prompts"] == 16
    assert said["parity"]["resid_max_relative_error"] < 1e-5
    assert said["key_fields"]["versions"]["torch"] == torch.__version__


def test_a_wrapped_model_is_unwrapped(model_of, tmp_path):
    """Capture takes what a loader returns as well as the model itself."""

    class Loaded:
        model = model_of("llama")

    assert run(Loaded(), tmp_path).n_layers == 3


@pytest.mark.parametrize("position", ["last", "all"])
def test_a_sample_computed_again_agrees(model_of, tmp_path, position):
    """All prompts of a sound store are within 4e-6; the sample depends on the seed alone."""
    request = CaptureRequest(stacks=("resid", "attn_out", "mlp_out"), position=position)
    store = run(model_of("gemma3"), tmp_path, request=request)
    report = recompute(store, model_of("gemma3"), model_digest="m", sample=99)
    assert report.prompts == store.prompt_ids
    assert 0 < report.max_relative_error <= 4e-6
    assert report.max_logprob_error < 2e-5
    first, second, other = (recompute(store, model_of("gemma3"), sample=5, seed=s).prompts for s in (1, 1, 2))
    assert first == second != other


def test_another_models_store_does_not_agree(model_of, llama, tmp_path):
    """Intact bytes of slightly other weights: recompute names the site, the prompt and the error."""
    store = run(model_of("llama"), tmp_path)
    store.verify()
    with torch.no_grad():
        llama.model.layers[1].mlp.down_proj.weight.mul_(1.001)
    with pytest.raises(
        StoreCorrupt, match=r"blocks\.\d\.hook_\w+ of prompt 'p\d+': computed again it differs by"
    ):
        recompute(store, llama)
    with pytest.raises(ActivationsError, match="captured from model m, this one is n"):
        recompute(store, llama, model_digest="n")
    with pytest.raises(ActivationsError, match="at least 1"):
        recompute(store, llama, sample=0)


@pytest.mark.parametrize("array", ["top1", "answer_logprob"])
def test_a_wrong_readout_does_not_agree(model_of, tmp_path, array):
    """Readouts that were replaced are found by computing them again."""
    store = run(model_of("llama"), tmp_path)
    file = store.folder / f"{array}.npy"
    values = np.load(file)
    np.save(file, np.roll(values, 1))
    with pytest.raises(StoreCorrupt, match=f"{array} of prompt"):
        recompute(store, model_of("llama"), sample=24)


def test_a_float16_store_is_held_to_its_rounding(model_of, tmp_path):
    """float16 rounds by 5e-4: that is no damage, and more is."""
    store = run(model_of("gpt2"), tmp_path, request=CaptureRequest(dtype="float16"))
    assert 1e-5 < recompute(store, model_of("gpt2")).max_relative_error < 1e-3
