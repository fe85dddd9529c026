"""Where clear frames come from: video files, frame folders, photos set in motion, and procedural scenes."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import cv2
import numpy as np

from libranet.data.frames import VIDEO_SUFFIXES, Image, decode_video, list_images, read_rgb
from libranet.data.maps import Field, Plane
from libranet.errors import InputError
from libranet.images import is_image_name
from libranet.synth.depth import DepthEstimator, DepthRange
from libranet.synth.guided_filter import guided_upsample
from libranet.synth.photo_motion import CameraMove, photo_clip

MIN_FRAMES = 2
ALREADY_NORMALISED = DepthRange("distance", 0.0, 1.0)
FolderMeaning = Literal["auto", "frames", "photos"]


@dataclass(frozen=True)
class FrameRequest:
    """What the pipeline asks a source for."""

    frames: int
    """At most this many; a shorter source gives what it has."""
    fps: float
    """Sampling rate for sources that have a clock."""
    size: tuple[int, int]
    """Width and height. A larger source is cropped to this shape and reduced; a smaller one keeps its own size."""
    proxy: int
    """Width at which depth is estimated."""
    seed: int
    depth: DepthEstimator
    """For sources whose frames are made with depth, as moved photos are."""


@dataclass(frozen=True)
class SourceFrame:
    """One clear frame, with its exact distance and forward flow where the source knows them."""

    image: Image
    distance: Plane | None = None
    flow: Field | None = None


class ClipSource(Protocol):
    """Something that gives one clip."""

    @property
    def name(self) -> str:
        """A short name for folders and messages."""
        ...

    @property
    def range(self) -> DepthRange | None:
        """How exact distances are normalised; None to measure it over the clip."""
        ...

    @property
    def sky(self) -> float:
        """Distance that stands for the sky."""
        ...

    def describe(self) -> dict[str, Any]:
        """What clip.json says about the source."""
        ...

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        """The clip's frames from number `start` on."""
        ...


@dataclass(frozen=True)
class VideoSource:
    """A video file, sampled by its timestamps."""

    path: Path
    licence: str = "not stated"
    range: None = None
    sky: float = float("inf")

    @property
    def name(self) -> str:
        return self.path.name

    def describe(self) -> dict[str, Any]:
        return {"kind": "video", "name": self.path.name, "licence": self.licence}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        count, shape, origin = 0, None, None
        for frame in decode_video(self.path):
            time = frame.time or 0.0
            if shape is not None and (frame.width, frame.height) != shape:
                raise InputError(
                    f"expected one resolution in {self.path}, got {shape[0]}x{shape[1]} and then "
                    f"{frame.width}x{frame.height} at {time:.2f} s; cut the video there"
                )
            shape = (frame.width, frame.height)
            origin = time if origin is None else origin
            if time - origin < count / request.fps - 1e-6:
                continue
            if count >= start:
                yield SourceFrame(fit(frame.to_ndarray(format="rgb24"), request.size))
            count += 1
            if count == request.frames:
                return
        _require_frames(count, self.path, f" at {request.fps:g} fps")


@dataclass(frozen=True)
class FolderSource:
    """A folder with one image per frame. It has no clock, so every frame is taken."""

    folder: Path
    licence: str = "not stated"
    range: None = None
    sky: float = float("inf")

    @property
    def name(self) -> str:
        return self.folder.name

    def describe(self) -> dict[str, Any]:
        return {"kind": "frames", "name": self.folder.name, "licence": self.licence}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        paths = list_images(self.folder)[: request.frames]
        _require_frames(len(paths), self.folder, "")
        shape = read_rgb(paths[0]).shape
        for path in paths[start:]:
            image = read_rgb(path)
            if image.shape != shape:
                raise InputError(
                    f"expected one resolution in {self.folder}, got {shape[1]}x{shape[0]} and then "
                    f"{image.shape[1]}x{image.shape[0]} in {path.name}"
                )
            yield SourceFrame(fit(image, request.size))


@dataclass(frozen=True)
class PhotoSource:
    """A photo, set in motion by a camera move drawn from the seed."""

    path: Path
    licence: str = "not stated"
    range: DepthRange = ALREADY_NORMALISED
    sky: float = float("inf")

    @property
    def name(self) -> str:
        return self.path.name

    def describe(self) -> dict[str, Any]:
        return {"kind": "photo", "name": self.path.name, "licence": self.licence, "motion": "2.5-D camera move"}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        photo = read_rgb(self.path)
        height, width = photo.shape[:2]
        small = cv2.resize(
            photo, (request.proxy, max(round(request.proxy * height / width), 16)), interpolation=cv2.INTER_AREA
        )
        raw = request.depth.estimate(small)
        depth = DepthRange.measure([raw], request.depth.meaning).normalise(raw)
        move = CameraMove.draw(request.seed)
        size = fit_size((width, height), request.size)
        clip = photo_clip(photo, guided_upsample(depth, photo), move, frames=request.frames, size=size, start=start)
        for frame in clip:
            yield SourceFrame(frame.image, frame.depth, frame.flow)


@dataclass(frozen=True)
class SceneSource:
    """A procedural scene of our own renderer: exact depth, exact flow, no download."""

    scene: int
    """The seed that the scene and its camera path are drawn from."""
    device: str = "cpu"
    range: None = None

    @property
    def name(self) -> str:
        return f"scene-{self.scene}"

    @property
    def sky(self) -> float:
        from libranet.scenes import SKY_DEPTH

        return 0.999 * SKY_DEPTH

    def describe(self) -> dict[str, Any]:
        return {"kind": "procedural", "name": self.name, "seed": self.scene, "licence": "CC0-1.0"}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        from libranet.scenes import render_clip

        width, height = request.size
        clip = render_clip(
            self.scene, frames=request.frames, width=width, height=height, fps=request.fps, device=self.device
        )
        for frame in itertools.islice(clip, start, None):
            image = (frame.image.clamp(0.0, 1.0) * 255.0).round().byte().permute(1, 2, 0).cpu().numpy()
            yield SourceFrame(np.ascontiguousarray(image), frame.depth.cpu().numpy(), frame.flow.cpu().numpy())


def find_sources(
    places: Sequence[str],
    *,
    scenes: int,
    seed: int,
    folders: FolderMeaning = "auto",
    licence: str = "not stated",
    device: str = "cpu",
) -> list[ClipSource]:
    """Turn what the user named into sources: `procedural` gives `scenes` scenes, a folder all clips inside it."""
    found: list[ClipSource] = []
    for place in places:
        path = Path(place)
        if place == "procedural":
            found += [SceneSource(seed * 10_000 + i, device) for i in range(scenes)]
        elif path.is_dir():
            found += _sources_in(path, folders, licence)
        elif not path.exists():
            raise InputError(f"expected a video, a photo, a folder or the word 'procedural', got {place!r}")
        elif is_image_name(path):
            found.append(PhotoSource(path, licence))
        else:
            found.append(VideoSource(path, licence))
    return found


def _sources_in(folder: Path, meaning: FolderMeaning, licence: str) -> list[ClipSource]:
    images = list_images(folder)
    if images and (meaning == "frames" or (meaning == "auto" and _numbered(images))):
        return [FolderSource(folder, licence)]
    found: list[ClipSource] = [PhotoSource(path, licence) for path in images]
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
            found.append(VideoSource(path, licence))
        elif path.is_dir() and list_images(path):
            found += _sources_in(path, meaning, licence)
    if not found:
        raise InputError(f"expected videos, photos or frames in {folder}, found none")
    return found


def _numbered(images: Sequence[Path]) -> bool:
    """Whether the names differ only in a running number: a clip's frames rather than an album."""
    matches = [re.fullmatch(r"(.*?)(\d+)", path.stem) for path in images]
    if len(images) < MIN_FRAMES or any(match is None for match in matches):
        return False
    prefixes = {match[1] for match in matches if match}
    numbers = [int(match[2]) for match in matches if match]
    steps = {after - before for before, after in itertools.pairwise(numbers)}
    return len(prefixes) == 1 and len(steps) == 1 and 0 not in steps


def fit_size(source: tuple[int, int], wanted: tuple[int, int]) -> tuple[int, int]:
    """The size a source is brought to: the wanted shape, as large as wanted or as the source allows, never enlarged."""
    scale = min(source[0] / wanted[0], source[1] / wanted[1], 1.0)
    if scale == 1.0:
        return wanted
    if abs(source[0] * wanted[1] - source[1] * wanted[0]) < 0.02 * source[1] * wanted[0]:
        return source
    return max(round(wanted[0] * scale) // 2 * 2, 16), max(round(wanted[1] * scale) // 2 * 2, 16)


def fit(image: Image, wanted: tuple[int, int]) -> Image:
    """Crop the centre to the wanted shape and reduce it by area averaging."""
    rows, columns = image.shape[:2]
    width, height = fit_size((columns, rows), wanted)
    if (width, height) == (columns, rows):
        return np.ascontiguousarray(image)
    scale = min(columns / width, rows / height)
    crop_w, crop_h = min(round(width * scale), columns), min(round(height * scale), rows)
    left, top = (columns - crop_w) // 2, (rows - crop_h) // 2
    part = image[top : top + crop_h, left : left + crop_w]
    return np.asarray(cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA))


def _require_frames(count: int, path: Path, how: str) -> None:
    if count < MIN_FRAMES:
        raise InputError(f"expected at least {MIN_FRAMES} frames{how}, got {count} in {path}")
