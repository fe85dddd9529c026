"""What the fused path reads from and writes to frames in their own samples (YUV, planar RGB, 16 bit), in plain torch.

The planes of B frames lie in rings: one tensor [ring, h, w] per plane, or [ring, h, w, 3] where the layout is packed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.frame_io.reference import pixels_of_cells, write_cells
from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample

MODELS = {"rgb": 0, "yuv": 1, "gray": 2}


@dataclass(frozen=True)
class SampleCodes:
    """A frame format as the kernels read it: numbers in a tensor, everything that shapes their code as constants."""

    numbers: Tensor  # [22] fp32: codes to RGB (3x3), its summand (3), RGB to codes (3x3), the largest code
    model: int  # a value of `MODELS`
    pixel_step: int  # samples from one pixel to the next: 3 where the layout is packed
    sub_y: int
    sub_x: int
    phase_y: int
    """Twice the distance from the first luma row that a chroma sample covers to the chroma sample."""
    phase_x: int
    floating: bool

    @classmethod
    def make(cls, format_: FrameFormat, device: torch.device) -> "SampleCodes":
        layout = format_.layout
        converter = ColorConverter(layout, format_.color)
        matrix, summand = converter.from_codes
        back = converter.to_codes
        if layout.model == "rgb":
            matrix = [[1.0 / layout.peak if i == j else 0.0 for j in range(3)] for i in range(3)]
            back = [[float(layout.peak) if i == j else 0.0 for j in range(3)] for i in range(3)]
            summand = [0.0, 0.0, 0.0]
        elif layout.model == "gray":
            matrix = [[row[0], 0.0, 0.0] for row in matrix]
            black = float(converter.codes(torch.zeros(3))[0])
            summand = [-row[0] * black for row in matrix]
        numbers = [x for row in matrix for x in row] + list(summand) + [x for row in back for x in row]
        across, down = converter.cosited
        halves = {"first": lambda step: 0, "middle": lambda step: step - 1, "last": lambda step: 2 * (step - 1)}
        return cls(
            numbers=torch.tensor([*numbers, float(layout.peak)], dtype=torch.float32).to(device),
            model=MODELS[layout.model],
            pixel_step=3 if layout.packed else 1,
            sub_y=layout.sub_y,
            sub_x=layout.sub_x,
            phase_y=halves[down](layout.sub_y),
            phase_x=halves[across](layout.sub_x),
            floating=layout.floating,
        )

    def components(self, planes: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Where red, green and blue, or Y, Cb and Cr begin; gray three times."""
        if self.pixel_step == 3:
            flat = planes[0].view(-1)
            return flat, flat[1:], flat[2:]
        if self.model == MODELS["rgb"]:
            green, blue, red = planes
            return red, green, blue
        return (planes[0], planes[1], planes[2]) if len(planes) == 3 else (planes[0], planes[0], planes[0])

    def constants(self) -> dict[str, int]:
        """What shapes the code of a kernel."""
        return {
            "MODEL": self.model, "STEP": self.pixel_step,
            "SUB_Y": self.sub_y, "SUB_X": self.sub_x, "PY": self.phase_y, "PX": self.phase_x,
        }  # fmt: skip


def read_samples_out(
    planes: tuple[Tensor, ...],
    low: Tensor,  # [B, 3, h, w] fp32, written, in [0, 1]
    cells: Tensor,  # [B, h, w, 64] fp16, written, in [0, 1)
    *,
    format_: FrameFormat,
    first: int = 0,
) -> None:
    """`frame_io.read_cells_out` for frames in their own samples. Frames are continued by reflection to whole cells."""
    b, _, h, w = low.shape
    rgb = pad_to_multiple(_rgb(planes, format_, first, b), 4)
    low.copy_(downsample(rgb, (h, w)))
    write_cells(rgb.permute(0, 2, 3, 1) * (255.0 / 256.0), cells)


def reduce_samples_out(
    planes: tuple[Tensor, ...],
    out: Tensor,  # [B, size, size, 4] fp16, written, in [-1, 1]; the fourth channel is zero
    *,
    format_: FrameFormat,
    first: int = 0,
) -> None:
    """`resample.reduce_frames_out` for frames in their own samples."""
    b, size = out.shape[:2]
    rgb = pad_to_multiple(_rgb(planes, format_, first, b), 4)
    out[..., :3] = (downsample(rgb, (size, size)) * 2.0 - 1.0).permute(0, 2, 3, 1)
    out[..., 3] = 0.0


def finish_samples_out(
    planes: tuple[Tensor, ...],
    residual: Tensor,  # [B, h, w, 64] fp16, the channels of `pack_project`
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [B] fp32
    out: tuple[Tensor, ...],  # B frames, written
    *,
    format_: FrameFormat,
    first: int = 0,
) -> None:
    """Add the change of RGB, clamped to what RGB can hold, to the frames' own samples.

    Args:
        planes: Rings of hazy frames.
        strength: Factor of the residual; the correction has its own already.
        first: Slot of the first frame to read.
    """
    b, h, w, _ = residual.shape
    converter = ColorConverter(format_.layout, format_.color, device=residual.device)
    pixels = pixels_of_cells(residual.float()).permute(0, 3, 1, 2)
    change = upsample(delta, (4 * h, 4 * w)) + strength.view(-1, 1, 1, 1) * pixels
    change = change[..., : format_.height, : format_.width]
    rgb = _rgb(planes, format_, first, b)
    change = (rgb + change).clamp(0.0, 1.0) - rgb
    for index in range(b):
        slot = (first + index) % len(planes[0])
        changed = converter.add_change([plane[slot] for plane in planes], change[index : index + 1])
        for target, plane in zip(out, changed, strict=True):
            target[index].copy_(plane)


def _rgb(planes: tuple[Tensor, ...], format_: FrameFormat, first: int, count: int) -> Tensor:  # [count, 3, H, W]
    converter = ColorConverter(format_.layout, format_.color, device=planes[0].device)
    slots = [(first + index) % len(planes[0]) for index in range(count)]
    return torch.cat([converter.to_rgb([plane[slot] for plane in planes]) for slot in slots])
