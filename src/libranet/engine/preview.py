"""Previews: a contact sheet of before and after, in seconds, to try a setting before a long run."""

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.engine.adjust import Adjuster
from libranet.engine.image_files import restore_images
from libranet.engine.options import DehazeOptions, check_output, translate_io_errors
from libranet.engine.plan import backend_for, expected_frames
from libranet.engine.views import FrameView
from libranet.errors import InputError
from libranet.frames import ColorConverter
from libranet.images import Image, is_image_name, read_image, write_image
from libranet.network import LiBrANet, Network
from libranet.runtime.interface import rgb_frames
from libranet.video.pixels import layout_of, read_planes
from libranet.video.reader import VideoReader, open_video
from libranet.video.source import Source, parse_source
from libranet.video.visualize import contact_sheet

Pair = tuple[np.ndarray, np.ndarray, str]  # before and after, uint8 [H, W, 3], and a caption
LARGEST_SIDE = 1280
"""Frames are restored at twice the size of the sheet's cells: a 4K frame would take sixteen times as long."""


@dataclass(frozen=True)
class PreviewFrames:
    """The frames that a preview needs, made small: those around one moment of a video, or one image."""

    frames: tuple[Tensor, ...]  # each [1, 3, H, W] in [0, 1]; the centre one is shown
    seconds: float  # time of the centre frame
    turns: int  # quarter turns counter-clockwise that show it upright
    mirrored: bool = False  # it is mirrored before it is turned

    @property
    def before(self) -> np.ndarray:  # uint8 [H, W, 3]
        """The centre frame as it is, upright."""
        return self.upright(self.frames[len(self.frames) // 2])

    def upright(self, image: Tensor) -> np.ndarray:  # [1, 3, H, W] in [0, 1] -> uint8 [H, W, 3]
        samples = (image[0].permute(1, 2, 0) * 255).round().clamp(0, 255).byte().numpy()
        return np.ascontiguousarray(np.rot90(samples[:, ::-1] if self.mirrored else samples, self.turns))

    def restore(self, network: Network, options: DehazeOptions) -> np.ndarray:  # uint8 [H, W, 3]
        """Restore the centre frame and show it upright, as `view` and `compare` say."""
        return self.upright(_restored(self, network, options))


def read_video_frames(
    source: str | Path | Source, network: Network, options: DehazeOptions, moment: float, *, side: int = LARGEST_SIDE
) -> PreviewFrames | None:
    """Read the frames of a video around a moment in seconds, or None where it has none there.

    Larger ones are reduced to `side` pixels.
    """
    with open_video(source, deinterlace=options.deinterlace, start=moment) as reader:
        window = network.config.window
        begin = max(0.0, options.start, moment - (window // 2 + 0.5) / float(reader.rate))
        frames = list(islice(reader.frames(start=begin, end=options.end), window))
        if not frames:
            return None
        spec = reader.tags.color_spec(reader.pixel_format, reader.height)
        converter = ColorConverter(layout_of(reader.pixel_format), spec)
        small = tuple(_smaller(converter.to_rgb(read_planes(frame.image)), side) for frame in frames)
        seconds = frames[len(frames) // 2].time(reader.time_base) - float(reader.first_time)
        return PreviewFrames(small, seconds, reader.tags.quarter_turns)


def read_image_frame(path: Path, *, side: int = LARGEST_SIDE) -> PreviewFrames:
    """Read an image, or the first one of an animation. A larger one is reduced to `side` pixels."""
    image = read_image(path)
    samples = torch.from_numpy(image.rgb.astype(np.float32) / image.peak).permute(2, 0, 1)[None]
    turns, mirrored = image.orientation
    return PreviewFrames((_smaller(samples, side),), 0.0, turns, mirrored)


def write_preview(
    source: str | Path,
    output: str | Path,
    network: Network,
    *,
    count: int = 4,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a contact sheet of before and after.

    Only the frames that are shown are restored, large ones at a smaller size.

    Args:
        source: A video or an image.
        count: Moments of the video, evenly spread.
        overwrite: Replace an existing output.
    """
    if count < 1:
        raise InputError(f"expected a preview of at least 1 pair, got {count}")
    options = replace(options or DehazeOptions(), compare=None)
    output = Path(output)
    origin = parse_source(source)
    check_output(origin, output, overwrite=overwrite)
    if not is_image_name(output):
        raise InputError(f"a preview is an image: give -o a name that ends in .png or .jpg, not {output.name}")
    if origin.kind not in ("file", "sequence"):
        raise InputError(f"a preview needs a file that can be read again, got {origin.name}: record a part of it first")
    if origin.path is not None and is_image_name(origin.path):
        pairs, size = _image_pair(origin.path, network, options)
    else:
        pairs, size = _video_pairs(origin, network, options, count)
    views = {"haze": "estimated haze", "removed": "removed haze"}
    shown = views.get(options.view, f"strength {options.strength:g}")
    title = f"{Path(origin.name).name}   {size[0]}x{size[1]}   {shown}"
    with translate_io_errors(output):
        write_image(output, Image(contact_sheet(pairs, title=title)))
    return output


def _video_pairs(
    source: Source, network: Network, options: DehazeOptions, count: int
) -> tuple[list[Pair], tuple[int, int]]:
    pairs: dict[float, Pair] = {}
    with open_video(source, deinterlace=options.deinterlace) as reader:
        size = (reader.width, reader.height)
        moments = _moments(reader, options, count)
    for moment in moments:
        found = read_video_frames(source, network, options, moment)
        if found is not None and found.seconds not in pairs:
            pairs[found.seconds] = (found.before, found.restore(network, options), f"{found.seconds:.2f} s")
    if not pairs:
        raise InputError(f"{source.name} has no frame between --start and --end: choose another part")
    return list(pairs.values()), size


def _moments(reader: VideoReader, options: DehazeOptions, count: int) -> list[float]:
    length = reader.duration if options.end is None else min(options.end, reader.duration or options.end)
    if length is None:
        return [options.start]
    count = min(count, expected_frames(reader, options) or count)
    span = max(0.0, length - options.start)
    return [options.start + span * (index + 0.5) / count for index in range(count)]


def _restored(preview: PreviewFrames, network: Network, options: DehazeOptions) -> Tensor:  # [1, 3, H, W]
    """Restore the centre frame alone where the network can."""
    frames, centre = preview.frames, len(preview.frames) // 2
    plain = options.view == "result" and options.compare is None and options.adjust.neutral
    if isinstance(network, LiBrANet) and plain and len(frames) == network.config.window:
        window = torch.stack(frames, dim=1).to(network.device, network.dtype)
        with torch.no_grad():
            return network(window, strength=options.strength).float().cpu()
    shown, backend = [], backend_for(network, options, live=False)
    for frame in [*frames, None]:
        for found in backend.flush() if frame is None else backend.push(rgb_frames(frame)):
            restored, format_, device = found, found.format, backend.device
            if not options.adjust.neutral:
                adjuster = Adjuster(
                    options.adjust,
                    format_,
                    device=device,
                    strength=options.strength,
                    turns=preview.turns,
                    mirrored=preview.mirrored,
                )
                restored = adjuster.apply(found, preview.seconds)
            view = FrameView(
                format_, format_, compare=options.compare, view=options.view, turns=preview.turns, device=device
            )
            shown.append([plane.clone() for plane in view.draw(restored)])
    green, blue, red = shown[centre]
    return torch.stack([red, green, blue])[None].float().cpu()


def _smaller(image: Tensor, side: int) -> Tensor:
    height, width = image.shape[-2:]
    scale = side / max(height, width)
    if scale >= 1:
        return image
    size = (max(16, round(width * scale)), max(16, round(height * scale)))
    small = cv2.resize(image[0].permute(1, 2, 0).numpy(), size, interpolation=cv2.INTER_AREA)
    return torch.from_numpy(small).permute(2, 0, 1)[None].clamp(0, 1)  # OpenCV's sums may exceed 1 by a little


def _image_pair(path: Path, network: Network, options: DehazeOptions) -> tuple[list[Pair], tuple[int, int]]:
    image = read_image(path)
    restored, _ = next(restore_images([(image, 0.0)], network, options))
    scale = 255.0 / image.peak
    before, after = ((i.rgb * scale).round().astype(np.uint8) for i in (image, restored))
    return [(before, after, path.name)], (image.samples.shape[1], image.samples.shape[0])
