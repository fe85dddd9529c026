"""ComfyUI node: put this folder into ComfyUI/custom_nodes, and `libranet` into its Python."""

import torch
from torch import Tensor

from libranet import Dehazer
from libranet.video.shots import ShotDetector


class LibranetDehaze:
    """Removes haze and fog from a batch of images, or from a batch that is a video in order."""

    CATEGORY = "image/restoration"
    DESCRIPTION = "Removes haze and fog. A batch is one video, or separate images."
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "dehaze"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, dict[str, tuple]]:  # noqa: N802  # ComfyUI's name
        """The node's sockets and widgets."""
        return {
            "required": {
                "images": ("IMAGE",),
                "strength": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 1.5, "step": 0.05}),
                "batch_is": (["video", "images"], {"tooltip": "video: colours stay steady from frame to frame"}),
                "frame_rate": ("FLOAT", {"default": 25.0, "min": 1.0, "max": 240.0, "tooltip": "of a video"}),
                "model": (["libranet-base", "libranet-small"],),
            }
        }

    def dehaze(
        self,
        images: Tensor,  # [B, H, W, 3 or 4] in [0, 1]
        strength: float,
        batch_is: str,
        frame_rate: float,
        model: str,
    ) -> tuple[Tensor]:
        """Restore every image. Alpha stays."""
        dehazer = Dehazer(model, strength=strength, rate=frame_rate)
        hazy = images[..., :3].float().clamp(0.0, 1.0).permute(0, 3, 1, 2)
        if batch_is == "video":
            shots = ShotDetector()
            cuts = [shots.is_cut((frame[1] * 255).byte().cpu().numpy(), 255) for frame in hazy]
            clear = dehazer.push_many(hazy, cuts=cuts) + dehazer.flush()
        else:
            clear = [dehazer.image(frame) for frame in hazy]
        restored = torch.stack(clear).permute(0, 2, 3, 1).to(images.dtype)
        return (torch.cat([restored, images[..., 3:]], dim=-1),)


NODE_CLASS_MAPPINGS = {"LibranetDehaze": LibranetDehaze}
NODE_DISPLAY_NAME_MAPPINGS = {"LibranetDehaze": "Dehaze (LiBrA-Net)"}
