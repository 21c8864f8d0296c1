"""What is asked for: the prompts as token ids, and how to capture them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import blake3
import numpy as np

from prereg.errors import ActivationsError

__all__ = ["STACKS", "CaptureRequest", "Dtype", "Position", "Stack", "TokenizedPrompts"]

Stack = Literal["resid", "attn_out", "mlp_out"]
Position = Literal["last", "all"]
Dtype = Literal["float32", "float16"]

STACKS: tuple[Stack, ...] = get_args(Stack)
"""Every stack a store can hold, in the order in which stores list them."""


@dataclass(frozen=True, slots=True)
class TokenizedPrompts:
    """n prompts as token ids, tokenised once, in the protocol's order.

    Parameters
    ----------
    ids
        n tuples of token ids, each of at least one. They go to the model as they are: no token is added.
    answer_ids
        n token ids, the first token of each prompt's answer; None where there is no answer.
    prompt_ids
        n distinct labels, one a prompt. They name rows in errors and bind rows to facts.

    Raises
    ------
    ActivationsError
        If there are no prompts, a prompt is empty, an id is negative, lengths differ or a label is repeated.
    """

    ids: tuple[tuple[int, ...], ...]
    answer_ids: tuple[int, ...] | None
    prompt_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.ids)
        if n == 0:
            raise ActivationsError(
                "there are no prompts to capture", remedy="check the protocol's facts and filters"
            )
        answers = n if self.answer_ids is None else len(self.answer_ids)
        if (answers, len(self.prompt_ids)) != (n, n):
            raise ActivationsError(
                f"{n} prompts, {answers} answer ids and {len(self.prompt_ids)} labels: lengths differ"
            )
        if len(set(self.prompt_ids)) != n:
            raise ActivationsError(
                f"prompt labels must be distinct: {n - len(set(self.prompt_ids))} are repeated"
            )
        for label, ids in zip(self.prompt_ids, self.ids, strict=True):
            if not isinstance(ids, tuple) or not ids or min(ids) < 0:
                raise ActivationsError(
                    f"prompt {label!r} needs a tuple of one or more token ids, none negative; found {ids!r}"
                )
        if self.answer_ids is not None and min(self.answer_ids) < 0:
            raise ActivationsError(f"answer ids must not be negative, found {min(self.answer_ids)}")

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: the number of tokens of each prompt."""
        return np.fromiter((len(ids) for ids in self.ids), np.int64, len(self.ids))

    @property
    def offsets(self) -> np.ndarray:
        """(n + 1,) int64: prompt i's tokens are ``offsets[i]:offsets[i + 1]`` of the concatenation."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    @property
    def tokens(self) -> np.ndarray:
        """(total_tokens,) int64: the prompts' ids, one after the other."""
        return np.fromiter((t for ids in self.ids for t in ids), np.int64, int(self.lengths.sum()))

    def digests(self) -> dict[str, str]:
        """Return the blake3 of the ordered token ids, of the answers and of the labels."""
        answers = () if self.answer_ids is None else self.answer_ids
        return {
            "tokens": _digest([self.lengths.tobytes(), self.tokens.tobytes()]),
            "answers": _digest(
                [b"none" if self.answer_ids is None else np.asarray(answers, np.int64).tobytes()]
            ),
            "prompt_ids": _digest(f"{len(label.encode())}:{label}".encode() for label in self.prompt_ids),
        }


def _digest(parts: Iterable[bytes]) -> str:
    hasher = blake3.blake3()
    for part in parts:
        hasher.update(part)
    return str(hasher.hexdigest())


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """How to capture.

    Parameters
    ----------
    stacks
        Which of ``resid``, ``attn_out`` and ``mlp_out``; kept in that order, without repeats.
    position
        ``last``: the last prompt token; ``all``: every token.
    dtype
        Of the stored stacks. ``float16`` is refused where a value would overflow; it rounds by 5e-4.
    token_budget
        A batch holds at most this many tokens, padding counted (a longer prompt has a batch of its own).
    threads
        Torch threads. The number changes the last bits, so it is part of a store's key.
    block_rows
        Stored rows that are written, hashed and journaled together; None takes what fits in some 48 MiB.
    registration
        Root digest of the registration that this is captured for, 64 hex characters; part of a store's key, so
        that what was captured before a freeze is never taken for what was captured after it. None for none.

    Raises
    ------
    ActivationsError
        If a value is not one of the above.
    """

    stacks: tuple[Stack, ...] = ("resid",)
    position: Position = "last"
    dtype: Dtype = "float32"
    token_budget: int = 256
    threads: int = 1
    block_rows: int | None = None
    registration: str | None = None

    def __post_init__(self) -> None:
        unknown = [stack for stack in self.stacks if stack not in STACKS]
        if unknown or not self.stacks:
            raise ActivationsError(f"stacks must be some of {', '.join(STACKS)}; found {list(self.stacks)}")
        object.__setattr__(self, "stacks", tuple(stack for stack in STACKS if stack in self.stacks))
        for name, allowed in (("position", get_args(Position)), ("dtype", get_args(Dtype))):
            if getattr(self, name) not in allowed:
                raise ActivationsError(
                    f"{name} must be one of {', '.join(allowed)}; found {getattr(self, name)!r}"
                )
        for name in ("token_budget", "threads", "block_rows"):
            value = getattr(self, name)
            if value is None and name == "block_rows":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ActivationsError(f"{name} must be a whole number of at least 1; found {value!r}")
