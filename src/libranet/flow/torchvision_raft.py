"""RAFT through torchvision, with weights from a file or from torchvision's own store."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from libranet.data.frames import Image
from libranet.data.maps import Field
from libranet.errors import InputError, MissingDependencyError

MIN_SIDE = 128


class RaftFlow:
    """RAFT (large, or small where the weights file is of the small one)."""

    def __init__(self, weights: str | Path | None = None, *, device: str | torch.device = "cpu") -> None:
        """`weights` is a state dict of torchvision's RAFT; without it, torchvision downloads its own."""
        try:
            from torchvision.models import optical_flow
        except (ImportError, RuntimeError) as error:
            raise MissingDependencyError(
                "RAFT flow needs torchvision in the version that fits torch; install it, or use --flow dis"
            ) from error
        if weights is None:
            chosen = optical_flow.Raft_Large_Weights.DEFAULT
            model = optical_flow.raft_large(weights=chosen, progress=False)
            self.name = f"torchvision-raft {chosen.name}"
        else:
            state = _load_state(Path(weights))
            small = not any(key.startswith("mask_predictor") for key in state)
            model = optical_flow.raft_small() if small else optical_flow.raft_large()
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"expected weights of torchvision's RAFT in {weights}: {reason}") from error
            self.name = f"torchvision-raft-{'small' if small else 'large'} {Path(weights).name}"
        self._model = model.to(device).eval()
        self._device = torch.device(device)

    @torch.inference_mode()
    def estimate(self, first: Image, second: Image) -> Field:
        height, width = first.shape[:2]
        # RAFT wants sides that are multiples of 8 and large enough for its pyramid: continue the frame at its end.
        pad = (0, max(-width % 8, MIN_SIDE - width), 0, max(-height % 8, MIN_SIDE - height))
        frames = [F.pad(self._to_input(image), pad, mode="replicate") for image in (first, second)]
        flow = self._model(*frames)[-1][0, :, :height, :width]
        return flow.float().cpu().numpy()

    def _to_input(self, image: Image) -> torch.Tensor:  # [1, 3, h, w] in [-1, 1]
        tensor = torch.from_numpy(np.ascontiguousarray(image)).to(self._device).permute(2, 0, 1)[None].float()
        return tensor / 127.5 - 1.0


def _load_state(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise InputError(f"expected RAFT weights, found no file {path}")
    try:
        if path.suffix == ".safetensors":
            import safetensors.torch

            return safetensors.torch.load_file(path)
        state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return state
    except Exception as error:  # torch, pickle and safetensors raise classes that share no base
        raise InputError(f"expected RAFT weights, could not read {path}: {error}") from error
