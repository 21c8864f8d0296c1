"""Which torch devices work on this machine, asked before a model is loaded."""

from __future__ import annotations

import torch

from prereg.errors import ModelError

__all__ = ["require_device", "working_devices"]


def working_devices() -> tuple[str, ...]:
    """Return ``cpu``, and the accelerator's name, and its numbered devices where there are several."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ("cpu",)
    count = torch.accelerator.device_count()
    numbered = tuple(f"{accelerator.type}:{index}" for index in range(count)) if count > 1 else ()
    return ("cpu", accelerator.type, *numbered)


def require_device(name: str) -> None:
    """Refuse a device that isn't here.

    Raises
    ------
    ModelError
        Names the devices that work.
    """
    working = working_devices()
    # The first of a kind may be named by its number too.
    if name in working or name.removesuffix(":0") in working:
        return
    raise ModelError(
        f"no device {name!r} works on this machine: there is {', '.join(working)}",
        remedy=f"--device {' or --device '.join(working)}",
    )
