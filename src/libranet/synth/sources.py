"""Sources of clear clips: video files, folders of frames, photos in motion, and procedural scenes."""

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from libranet.data.frames import RgbImage, decode_video, read_rgb
from libranet.data.maps import FlowField, Plane
from libranet.errors import InputError
from libranet.extension import lab
from libranet.haze.images import SKY_DEPTH
from libranet.images import is_image_name
from libranet.sequences import (
    describe_gaps,
    folders_in,
    is_clip,
    is_video_file,
    list_frames,
    list_images,
    natural_order,
)
from libranet.synth.depth_estimators import DepthEstimator
from libranet.synth.depth_maps import DepthRange, guided_upsample
from libranet.synth.moving_things import MovingThing, add_things
from libranet.synth.photo_motion import CameraMove, crop_to_aspect, photo_clip

logger = logging.getLogger(__name__)

MIN_FRAMES = 2
SKY_SHARE = 0.999  # distances from this share of `SKY_DEPTH` on are sky

FolderContent = Literal["auto", "frames", "photos"]
DepthKind = Literal["none", "normalised", "metres"]
"""What a source says about depth: nothing, 0 near .. 1 far, or metres with an infinite sky."""


@dataclass(frozen=True)
class FrameRequest:
    """What the pipeline asks a source for."""

    frames: int  # at most this many; a shorter source gives what it has
    fps: float  # sampling rate for sources with timestamps
    size: tuple[int, int]
    """Width and height. A larger source is cropped to this aspect ratio and reduced; a smaller one keeps its size."""
    proxy: int  # width at which depth is estimated
    seed: int
    depth: DepthEstimator
    """For sources that need depth to make their frames, such as photos in motion."""


@dataclass(frozen=True)
class SourceFrame:
    """One clear frame, with its depth and forward flow where the source has them."""

    image: RgbImage
    depth: Plane | None = None  # as the source's `depth_kind` says
    flow: FlowField | None = None


@dataclass(frozen=True)
class FileSource:
    """What all sources on disk have in common."""

    path: Path
    licence: str = "not stated"
    scene: str = ""  # what it shows and where it was taken, as a manifest says; may be empty
    region: str = ""
    kind: ClassVar[str]
    depth_kind: ClassVar[DepthKind] = "none"

    @property
    def name(self) -> str:
        return self.path.name

    def describe(self) -> dict[str, Any]:
        """Return the entry `source` of clip.json."""
        places = {"scene": self.scene, "region": self.region}
        stated = {key: value for key, value in places.items() if value}
        return {"kind": self.kind, "name": self.path.name, "licence": self.licence, **stated}


@dataclass(frozen=True)
class VideoSource(FileSource):
    """A video file, sampled by its timestamps."""

    begin: float = 0.0  # seconds into the video
    kind = "video"

    def describe(self) -> dict[str, Any]:
        return super().describe() | ({"begin": self.begin} if self.begin else {})

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        count, shape, origin = 0, None, None
        for frame in decode_video(self.path):
            time = frame.time or 0.0
            origin = time + self.begin if origin is None else origin
            if shape is not None and (frame.width, frame.height) != shape:
                raise InputError(
                    f"expected one resolution in {self.path}, got {shape[0]}x{shape[1]} and then "
                    f"{frame.width}x{frame.height} at {time:.2f} s; cut the video there"
                )
            shape = (frame.width, frame.height)
            if time - origin < count / request.fps - 1e-6:
                continue
            if count >= start:
                yield SourceFrame(fit(frame.to_ndarray(format="rgb24"), request.size))
            count += 1
            if count == request.frames:
                return
        start_text = f" from {self.begin:g} s on" if self.begin else ""
        _require_frames(count, self.path, f" at {request.fps:g} fps{start_text}")


class FolderSource(FileSource):
    """A folder with one image per frame. It has no timestamps, so every frame is taken."""

    kind = "frames"

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        paths = list_frames(self.path)[: request.frames]
        _require_frames(len(paths), self.path, "")
        shape = read_rgb(paths[0]).shape
        for path in paths[start:]:
            image = read_rgb(path)
            if image.shape != shape:
                raise InputError(
                    f"expected one resolution in {self.path}, got {shape[1]}x{shape[0]} and then "
                    f"{image.shape[1]}x{image.shape[0]} in {path.name}"
                )
            yield SourceFrame(fit(image, request.size))


@dataclass(frozen=True)
class PhotoSource(FileSource):
    """A photo in motion: a camera move drawn from the seed, with estimated depth or that of a map."""

    depth_map: Path | None = None
    """Grey image of the photo's depth, 0 near to full scale far; the photo is cropped to its aspect ratio."""
    things: int = 0  # moving things in the clip
    kind = "photo"
    depth_kind = "normalised"

    def describe(self) -> dict[str, Any]:
        more = {"moving_things": self.things} if self.things else {}
        depth = {"depth": f"map {self.depth_map.name}"} if self.depth_map else {}
        return {**super().describe(), "motion": "2.5-D camera move", **more, **depth}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        photo = read_rgb(self.path)
        if self.depth_map is None:
            small = _shrink(photo, request.proxy)
            raw = request.depth.estimate(small)
            depth = DepthRange.from_estimates([raw], request.depth.quantity).normalise(raw)
        else:
            depth = read_depth_map(self.depth_map)
            photo = crop_to_aspect(photo, (depth.shape[1], depth.shape[0]))[0]
        move, things = CameraMove.draw(request.seed), MovingThing.draw(request.seed, self.things)
        size = fit_size((photo.shape[1], photo.shape[0]), request.size)
        clip = photo_clip(photo, guided_upsample(depth, photo), move, frames=request.frames, size=size, start=start)
        for index, frame in enumerate(clip, start):
            whole = add_things(frame, things, photo, move, index=index, frames=request.frames)
            yield SourceFrame(whole.image, whole.depth, whole.flow)


@dataclass(frozen=True)
class SceneSource:
    """A procedural scene: exact depth, exact flow, no download."""

    scene: int  # seed of the scene and its camera path
    device: str = "cpu"
    region: str = ""
    shows: str = ""
    depth_kind: ClassVar[DepthKind] = "metres"

    @property
    def name(self) -> str:
        return f"scene-{self.scene}"

    def describe(self) -> dict[str, Any]:
        stated = {"scene": self.shows, "region": self.region} if self.shows else {}
        return {"kind": "procedural", "name": self.name, "seed": self.scene, "licence": "CC0-1.0", **stated}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        width, height = request.size
        clip = lab("scenes").render_clip(
            self.scene, frames=request.frames, width=width, height=height, fps=request.fps, device=self.device
        )
        for frame in itertools.islice(clip, start, None):
            image = (frame.image.clamp(0.0, 1.0) * 255.0).round().byte().permute(1, 2, 0).cpu().numpy()
            metres = frame.depth.cpu().numpy()
            metres = np.where(metres >= SKY_SHARE * SKY_DEPTH, np.float32(np.inf), metres)
            yield SourceFrame(np.ascontiguousarray(image), metres, frame.flow.cpu().numpy())


ClipSource = VideoSource | FolderSource | PhotoSource | SceneSource
"""What gives one clip, by `frames`, from a number on. Unless `depth_kind` is none, each frame has depth and flow."""


def find_sources(
    places: Sequence[str],
    *,
    scenes: int,
    seed: int,
    folders: FolderContent = "auto",
    licence: str = "not stated",
    device: str = "cpu",
) -> list[ClipSource]:
    """Find the clips at the given places.

    Args:
        scenes: How many clips `procedural` gives.
        seed: Scene number i is drawn from 10,000 * seed + i.
        folders: What a folder of images contains; `auto` takes numbered images that resemble each other for frames.
    """
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


def _sources_in(folder: Path, content: FolderContent, licence: str) -> list[ClipSource]:
    found: list[ClipSource] = []
    for place in folders_in(folder):
        images = list_images(place)
        if images and (content == "frames" or (content == "auto" and is_clip(images))):
            if gaps := describe_gaps(images):
                logger.warning("%s: %s; the others follow each other", place, gaps)
            found.append(FolderSource(place, licence))
        else:
            found += [PhotoSource(path, licence) for path in images]
        found += [VideoSource(path, licence) for path in natural_order(place.iterdir()) if is_video_file(path)]
    if not found:
        raise InputError(f"expected videos, photos or frames in {folder}, found none")
    return found


def fit_size(source: tuple[int, int], wanted: tuple[int, int]) -> tuple[int, int]:
    """Compute the size of a clip: the wanted aspect ratio, as large as wanted or as the source allows."""
    scale = min(source[0] / wanted[0], source[1] / wanted[1], 1.0)
    if scale == 1.0:
        return wanted
    if abs(source[0] * wanted[1] - source[1] * wanted[0]) < 0.02 * source[1] * wanted[0]:
        return source
    return max(round(wanted[0] * scale) // 2 * 2, 16), max(round(wanted[1] * scale) // 2 * 2, 16)


def fit(image: RgbImage, wanted: tuple[int, int]) -> RgbImage:
    """Crop the centre to the wanted aspect ratio and reduce it by area averaging."""
    rows, columns = image.shape[:2]
    size = fit_size((columns, rows), wanted)
    if size == (columns, rows):
        return np.ascontiguousarray(image)
    return np.asarray(cv2.resize(crop_to_aspect(image, size)[0], size, interpolation=cv2.INTER_AREA))


def read_depth_map(path: Path) -> Plane:
    """Read a grey image, 8 or 16 bit, as depth: 0 near to 1 far."""
    values = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if values is None or values.ndim != 2 or values.dtype not in (np.uint8, np.uint16):
        raise InputError(f"expected a grey image of 8 or 16 bits as depth, got {path}")
    return (values / (255.0 if values.dtype == np.uint8 else 65535.0)).astype(np.float32)


def _shrink(photo: RgbImage, width: int) -> RgbImage:
    height = max(round(width * photo.shape[0] / photo.shape[1]), 16)
    return np.asarray(cv2.resize(photo, (width, height), interpolation=cv2.INTER_AREA))


def _require_frames(count: int, path: Path, how: str) -> None:
    if count < MIN_FRAMES:
        raise InputError(f"expected at least {MIN_FRAMES} frames{how}, got {count} in {path}")
