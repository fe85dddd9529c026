"""Results of any method, as files: restored frames or videos beside a set, measured as our own models are."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from libranet.data.agreement import Agreement, compare_sides
from libranet.data.frames import FrameFiles, FrameSequence, VideoFrames
from libranet.data.pairs import PairedClip
from libranet.engine.frame_sources import FrameSource
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip, EvalFrame, to_rgb
from libranet.sequences import is_video_file, list_frames, natural_order, running_numbers


@dataclass(frozen=True)
class RestoredFiles:
    """A folder of results: DIR/CLIP/frames, DIR/CLIP.mp4, or the frames or photos themselves in DIR."""

    name: str
    folder: Path
    clips: int = 1  # clips of the set. The frames of one alone may lie in the folder itself.
    frames: int | None = None  # frames of each clip that are measured; None for all
    backend: ClassVar[str] = ""  # nothing is computed here

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in natural_order(path for path in self.folder.rglob("*") if path.is_file()):
            facts = path.stat()
            digest.update(f"{path.relative_to(self.folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        """Read the result of each frame."""
        results: Iterator[Tensor] | None = None
        for frame in frames:
            assert frame.clip is not None
            if results is None:
                results = self._read(frame.clip, str(frame.hazy.device))
            image = next(results, None)
            if image is None:
                raise InputError(f"{self.name}: the result of clip {frame.clip.name} ends before the clip does")
            if image.shape != frame.hazy.shape:
                (height, width), (h, w) = frame.hazy.shape[1:], image.shape[1:]
                raise InputError(
                    f"{self.name}: expected frames of {width}x{height} for clip {frame.clip.name}, got {w}x{h}: a "
                    "result of another size cannot be compared pixel by pixel"
                )
            yield image

    def check(self, clips: Sequence[EvalClip]) -> Agreement:
        """Find the result of every clip, and compare some of them with their input."""
        pairs = []
        owners: dict[Path, str] = {}
        for clip in clips:
            found = self.find(clip)
            for path in found.paths if isinstance(found, FrameFiles) else ():
                if (owner := owners.setdefault(path, clip.name)) != clip.name:
                    raise InputError(f"{self.name}: {path} fits {owner} and {clip.name}: use a folder for each clip")
            if isinstance(clip.hazy, FrameFiles) and isinstance(found, FrameFiles):
                pairs.append(PairedClip(clip.name, FrameFiles(clip.hazy.paths[: len(found)]), found).checked())
        return compare_sides(pairs, most=8, second="restored") if pairs else Agreement(0, 1.0, ())

    def find(self, clip: EvalClip) -> FrameSequence:
        """The frames of one clip's result, in the order of the clip's frames."""
        found = self._files(clip)
        if not isinstance(found, Path) and isinstance(clip.hazy, FrameFiles):
            return FrameFiles(self._matched(clip.name, clip.hazy.paths[: self.frames], found))
        results: FrameSequence = VideoFrames(found) if isinstance(found, Path) else FrameFiles(found)
        needed = min(len(clip), self.frames or len(clip))
        # Without names to go by, only equal numbers of frames are sure to be in step.
        if len(results) != len(clip) and not (self.frames and len(results) == needed):
            raise InputError(f"{self.name}: expected {needed} frames of clip {clip.name}, got {len(results)}")
        return results

    def _files(self, clip: EvalClip) -> tuple[Path, ...] | Path:
        """The frames of a clip's result, or its video."""
        for place in (self.folder / name for name in dict.fromkeys((clip.name, clip.name.replace("-", "/")))):
            if place.is_dir() and (images := list_frames(place)):
                return images
        videos = [path for path in natural_order(self.folder.iterdir()) if is_video_file(path)]
        named = [path for path in videos if path.stem == clip.name]
        if named or (len(videos) == 1 and self.clips == 1):
            return (named or videos)[0]
        images = list_frames(self.folder)
        if images and (self.clips == 1 or (len(clip) == 1 and isinstance(clip.hazy, FrameFiles))):
            return images
        raise InputError(
            f"{self.name}: no result of clip {clip.name} in {self.folder}: expected {self.folder / clip.name}/ with "
            f"frames, or {self.folder / clip.name}.mp4"
        )

    def _matched(self, clip: str, hazy: tuple[Path, ...], results: tuple[Path, ...]) -> tuple[Path, ...]:
        """Match frames by name, else by their numbers, so that a missing one shifts nothing."""
        by_name = {path.stem: path for path in results}
        if all(path.stem in by_name for path in hazy):
            return tuple(by_name[path.stem] for path in hazy)
        # Methods add a word to the name: 0001_dehazed.png
        longer = {path: [r for r in results if r.stem.startswith(f"{path.stem}_")] for path in hazy}
        if all(len(hits) == 1 for hits in longer.values()):
            return tuple(hits[0] for hits in longer.values())
        ours, theirs = running_numbers(hazy), running_numbers(results)
        if ours is not None and theirs is not None:
            by_number = dict(zip(theirs, results, strict=True))
            if all(number in by_number for number in ours):
                return tuple(by_number[number] for number in ours)
        missing = next(path for path in hazy if path.stem not in by_name)
        raise InputError(
            f"{self.name}: no result of frame {missing.name} of clip {clip} in {results[0].parent}: results need the "
            "names or the numbers of the hazy frames"
        )

    def _read(self, clip: EvalClip, device: str) -> Iterator[Tensor]:
        source = EvalClip(clip.name, self.find(clip)).open()
        for given in source.frames():
            yield to_rgb(source.samples(given), device)


def parse_restored(text: str, *, clips: int = 1, frames: int | None = None) -> RestoredFiles:
    """Read NAME=DIR for a set of so many clips and the first so many frames of each."""
    name, equals, folder = text.partition("=")
    if not equals or not name:
        raise InputError(f"expected --restored NAME=DIR, such as ours=results/ours, got {text!r}")
    if not Path(folder).is_dir():
        raise InputError(f"no folder of results at {folder}: check --restored {text}")
    return RestoredFiles(name, Path(folder).resolve(), clips, frames)
