"""From files to a model that can be run: trained weights, or an untrained twin of the same shape."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prereg.activations.models.content import ModelIdentity, twin_identity
from prereg.activations.models.fit import require_fit
from prereg.activations.models.folder import read_config
from prereg.activations.models.intact import require_intact
from prereg.activations.models.quiet import quiet_transformers
from prereg.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prereg.activations.models.entries import ModelEntry
    from prereg.activations.models.local import LocalModel

__all__ = ["LoadedModel", "encode", "load", "load_twin"]

DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, in eval mode.

    Parameters
    ----------
    model
        A transformers `PreTrainedModel` with a causal LM head.
    tokenizer
        Its tokenizer.
    identity
        What it is; a twin's says so.
    n_layers, d_model
        Blocks, and width of the residual stream.
    dtype, device, attn_implementation
        How it runs.
    add_bos
        Whether `encode` puts the BOS token first; None leaves it to the tokenizer.
    twin_seed
        Seed of an untrained twin; None for trained weights.
    """

    model: Any
    tokenizer: Any
    identity: ModelIdentity
    n_layers: int
    d_model: int
    dtype: str
    device: str
    attn_implementation: str
    add_bos: bool | None
    twin_seed: int | None = None


def load(
    local: LocalModel,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    attn_implementation: str = "sdpa",
) -> LoadedModel:
    """Load trained weights, after reading every byte against its digest.

    Raises
    ------
    ModelError
        The device isn't here; a file is damaged or not the one that was fetched; weights are missing from
        the files, or are there for which the config has no place; the model is not of the family or shape
        that the registry promises; it needs code of its own.
    """
    from transformers import AutoModelForCausalLM

    from prereg.activations.models.devices import require_device

    require_device(device)
    wanted = _torch_dtype(dtype)
    _require_loadable(local)
    with _as_model_error(local, "can't be loaded"), quiet_transformers():
        model, info = AutoModelForCausalLM.from_pretrained(
            local.folder,
            dtype=wanted,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation=attn_implementation,
            output_loading_info=True,
        )
    require_fit(local.folder, info)
    model.eval()
    _require_finite(local, model)
    return _loaded(local, model, local.identity, dtype, device, None)


def _require_loadable(local: LocalModel) -> None:
    from transformers import __version__
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    local.verify()
    require_intact(local.folder)
    kind = read_config(local.folder).get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ModelError(
            f"{local.folder}: config.json says model_type {kind!r}, of which transformers {__version__} has no "
            "causal language model",
            remedy="check model_type in config.json, or choose another model: prereg models",
        )


@contextlib.contextmanager
def _as_model_error(local: LocalModel, what: str) -> Iterator[None]:
    """Turn what a library makes of a damaged or strange file, whatever it is, into words."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise ModelError(
            f"{local.folder} {what}: {type(error).__name__}: {_first_line(error)}",
            remedy="check that config.json, weights and tokenizer belong together and are whole, or fetch them again",
        ) from error


def _require_finite(local: LocalModel, model: Any) -> None:
    import torch

    with torch.no_grad():
        # Extremes carry NaN and infinity, in one pass and without a mask as large as the weights.
        extremes = {name: torch.stack(v.aminmax()) for name, v in model.named_parameters()}
    bad = [name for name, ends in extremes.items() if not ends.isfinite().all()]
    if bad:
        raise ModelError(
            f"{local.folder}: weights that are not finite in {', '.join(bad[:5])}",
            remedy="the file was damaged or wrongly converted: get the weights anew from where they came from",
        )


def load_twin(
    local: LocalModel,
    seed: int,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    attn_implementation: str = "sdpa",
) -> LoadedModel:
    """Draw the untrained twin: the same architecture with its own initial weights.

    The same seed gives the same bits; the caller's random state is untouched. The scale is the
    published config's, which has to say so itself: transformers' default is another model's.

    Parameters
    ----------
    local
        The trained model's files.
    seed
        Not negative.

    Raises
    ------
    ModelError
        The config carries no ``initializer_range`` (OPT: ``init_std``).
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from prereg.activations.models.devices import require_device

    if isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise ModelError(f"a twin's seed is a whole number from 0 on, found {seed!r}")
    require_device(device)
    wanted = _torch_dtype(dtype)
    _require_loadable(local)
    with _as_model_error(local, "has a config.json that can't be used"), quiet_transformers():
        config = AutoConfig.from_pretrained(local.folder, local_files_only=True, trust_remote_code=False)
    _settle_scale(config, local)
    with _as_model_error(local, "gives no untrained twin"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Drawn in float32 whatever is asked for, so that every dtype is the same twin, rounded.
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation=attn_implementation
        )
    model = model.eval().to(dtype=wanted)
    return _loaded(local, model, twin_identity(local.identity, seed), dtype, device, seed)


def _settle_scale(config: Any, local: LocalModel) -> None:
    raw = read_config(local.folder)
    key = "init_std" if raw.get("model_type") == "opt" else "initializer_range"
    said, registered = raw.get(key), local.entry.initializer_range
    if said is None and registered is None:
        raise ModelError(
            f"{local.entry.alias}: neither its config nor the registry carries {key}, so the scale of "
            "an untrained twin is unknown",
            remedy="give initializer_range, from the model's published config, in a model registry",
        )
    if said is not None and registered is not None and said != registered:
        raise ModelError(
            f"{local.entry.alias}: its config says {key} = {said}, the registry says {registered}",
            remedy="one of the two is wrong: look at the model's published config",
        )
    setattr(config, key, registered if said is None else said)


def _loaded(
    local: LocalModel,
    model: Any,
    identity: ModelIdentity,
    dtype: str,
    device: str,
    twin_seed: int | None,
) -> LoadedModel:
    config = model.config
    with _as_model_error(local, "does not say its depth and width"):
        found = (config.model_type, int(config.num_hidden_layers), int(config.hidden_size))
    _check_promise(local.entry, *found)
    return LoadedModel(
        model=_moved(model, local, device),
        tokenizer=_tokenizer(local),
        identity=identity,
        n_layers=found[1],
        d_model=found[2],
        dtype=dtype,
        device=device,
        attn_implementation=str(config._attn_implementation),
        add_bos=local.entry.add_bos,
        twin_seed=twin_seed,
    )


def _moved(model: Any, local: LocalModel, device: str) -> Any:
    try:
        return model.to(device)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        raise ModelError(
            f"{local.entry.alias} can't be moved to {device}: {_first_line(error)}",
            remedy="free memory there, or --device cpu",
        ) from error


def _check_promise(entry: ModelEntry, family: str, n_layers: int, d_model: int) -> None:
    promised = {"family": entry.family, "n_layers": entry.n_layers, "d_model": entry.d_model}
    found = {"family": family, "n_layers": n_layers, "d_model": d_model}
    for key, wanted in promised.items():
        if wanted is not None and found[key] != wanted:
            raise ModelError(
                f"{entry.alias}: {key} is {found[key]!r}, the registry promises {wanted!r}",
                remedy="this is another model than the one registered: get that one, or name this one by its path",
            )


def _tokenizer(local: LocalModel) -> Any:
    from transformers import AutoTokenizer

    # The Rust tokenizer warns when a process forks after using it; workers are forked or spawned.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with _as_model_error(local, "has a tokenizer that can't be used"), quiet_transformers():
        return AutoTokenizer.from_pretrained(local.folder, local_files_only=True, trust_remote_code=False)


def encode(loaded: LoadedModel, text: str) -> list[int]:
    """Token ids of a text, with BOS exactly where the registry says so.

    All other code takes its ids from here: a tokenizer, a pipeline and a hooked model each have
    ideas of their own about BOS, and a prompt must not depend on who was asked.

    Raises
    ------
    ModelError
        The text is empty, gives no tokens, or needs a BOS token that the tokenizer lacks.
    """
    if not text:
        raise ModelError("an empty text has no tokens")
    tokenizer, add_bos = loaded.tokenizer, loaded.add_bos
    ids = [int(i) for i in tokenizer(text, add_special_tokens=add_bos is None)["input_ids"]]
    if add_bos:
        if tokenizer.bos_token_id is None:
            raise ModelError(f"{loaded.identity.alias}: add_bos is set, but there is no BOS token")
        ids.insert(0, int(tokenizer.bos_token_id))
    if not ids:
        raise ModelError(f"{loaded.identity.alias}: the text {text!r} gives no tokens")
    return ids


def _torch_dtype(name: str) -> Any:
    import torch

    if name not in DTYPES:
        raise ModelError(f"no dtype {name!r}: wanted one of {', '.join(DTYPES)}", remedy="--dtype float32")
    return getattr(torch, name)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
