"""A contact sheet of before and after, in seconds, to try a setting before a long run."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from libranet.engine.options import DehazeOptions
from libranet.engine.sinks import writing
from libranet.engine.video import check_output, make_restorer
from libranet.errors import InputError
from libranet.images import Picture, is_image_name, read_image, write_image
from libranet.models import LiBrANet
from libranet.video.color import ColorConverter
from libranet.video.draw import contact_sheet
from libranet.video.pixels import layout_of, read_planes
from libranet.video.reader import open_video


def write_preview(
    source: str | Path,
    output: str | Path,
    network: LiBrANet,
    *,
    count: int = 4,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> Path:
    """Restore `count` moments spread over the video and write them, before and after, as one picture."""
    if count < 1:
        raise InputError(f"expected a preview of at least 1 pair, got {count}")
    options = replace(options or DehazeOptions(), compare=None)
    output = Path(output)
    check_output(source, output, overwrite=overwrite)
    if not is_image_name(output):
        raise InputError(f"a preview is a picture: give -o a name that ends in .png or .jpg, not {output.name}")
    pairs = _image_pair(source, network, options) if is_image_name(source) else _pairs(source, network, options, count)
    views = {"haze": "estimated haze", "veil": "haze taken away"}
    shown = views.get(options.view, f"strength {options.strength:g}")
    title = f"{Path(source).name}   {pairs[0][0].shape[1]}x{pairs[0][0].shape[0]}   {shown}"
    with writing(output):
        write_image(output, Picture(contact_sheet(pairs, title=title)))
    return output


def _pairs(
    source: str | Path, network: LiBrANet, options: DehazeOptions, count: int
) -> list[tuple[np.ndarray, np.ndarray, str]]:
    pairs = []
    for moment in _moments(source, options, count):
        with open_video(source, deinterlace=options.deinterlace) as reader:
            window = list(islice(reader.frames(start=moment), network.config.window))
            if not window:
                continue
            layout = layout_of(reader.pixel_format)
            converter = ColorConverter(layout, reader.tags.color_spec(reader.pixel_format, reader.height))
            turns = reader.tags.quarter_turns
            before = [_to_uint8(converter, frame.image) for frame in window]
            restorer = make_restorer(reader, network, replace(options, live=False))
            done = [finished for frame in window for finished in restorer.push(frame)] + restorer.flush()
            after = [restorer.pack(finished) for finished in done]
            centre = len(window) // 2
            time = window[centre].time(reader.time_base)
            shown = (np.rot90(p, turns) for p in (before[centre], _to_uint8(converter, after[centre].image)))
            first, second = (np.ascontiguousarray(p) for p in shown)
            pairs.append((first, second, f"{time:.2f} s"))
    if not pairs:
        raise InputError(f"{source} has no frame between --start and --end: choose another part")
    return pairs


def _moments(source: str | Path, options: DehazeOptions, count: int) -> list[float]:
    with open_video(source, deinterlace=options.deinterlace) as reader:
        length = reader.duration if options.end is None else min(options.end, reader.duration or options.end)
    if length is None:
        return [options.start]
    span = max(0.0, length - options.start)
    return [options.start + span * (index + 0.5) / count for index in range(count)]


def _image_pair(
    source: str | Path, network: LiBrANet, options: DehazeOptions
) -> list[tuple[np.ndarray, np.ndarray, str]]:
    from libranet.engine.image_files import restore_pictures

    picture = read_image(source)
    restored, _ = next(restore_pictures([picture], network, options))
    scale = 255.0 / picture.peak
    before, after = ((p.rgb * scale).round().astype(np.uint8) for p in (picture, restored))
    return [(before, after, Path(source).name)]


def _to_uint8(converter: ColorConverter, image: object) -> np.ndarray:  # [H, W, 3]
    rgb = converter.to_rgb(read_planes(image))  # type: ignore[arg-type]
    return (rgb[0].permute(1, 2, 0) * 255).round().byte().numpy()
