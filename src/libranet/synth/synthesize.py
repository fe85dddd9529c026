"""Make a whole dataset: plan the clips, make them in parallel, and record the sources that fail."""

import dataclasses
import json
import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from libranet.atomic import locked_file
from libranet.data.dataset import CLIP_FILE, CLIPS_FOLDER, DATASET_FILE, ClipInfo, DatasetInfo
from libranet.errors import InputError, LibraNetError
from libranet.flow import FlowEstimator
from libranet.haze.scattering import REGIMES, assign_regimes
from libranet.synth.depth_estimators import DepthEstimator
from libranet.synth.make_clip import ClipTask, make_clip
from libranet.synth.sources import ClipSource, FrameRequest

logger = logging.getLogger(__name__)

WORK_FOLDER = ".work"
TEST_SHARE = 0.2


@dataclass(frozen=True)
class SynthConfig:
    """The settings of a dataset. `PRESETS` has the usual ones."""

    preset: str
    frames: int
    """Frames per clip; a shorter source gives what it has."""
    size: tuple[int, int]
    """Largest width and height; a source is reduced to it, never enlarged."""
    proxy: int
    """Width at which depth and flow are estimated."""
    scenes: int
    """Number of clips of the source `procedural`."""
    fps: float = 5.0
    seed: int = 0
    angstrom: float = 0.0
    """Wavelength dependence of the scattering; 0 for one beta in all channels, as in the paper."""
    noise: float = 0.0
    """Standard deviation of sensor noise on the hazy frames, in 0 .. 1; 0 as in the paper."""

    def __post_init__(self) -> None:
        if self.frames < 2:
            raise InputError(f"expected at least 2 frames per clip, got {self.frames}")
        if min(self.size) < 64:
            raise InputError(f"expected clips of at least 64x64, got {self.size[0]}x{self.size[1]}")
        if self.seed < 0 or self.scenes < 1 or self.fps <= 0 or self.proxy < 64:
            raise InputError(f"expected a seed from 0, scenes, fps above 0 and a proxy from 64, got {self}")
        if not 0.0 <= self.noise < 0.5 or not 0.0 <= self.angstrom <= 4.0:
            raise InputError(f"expected noise in 0..0.5 and angstrom in 0..4, got {self.noise} and {self.angstrom}")


PRESETS: dict[Literal["uhv4k", "uhv4k-paper", "uhv4k-open", "mini"], SynthConfig] = {
    "uhv4k": SynthConfig("uhv4k", frames=25, size=(3840, 2160), proxy=960, scenes=100),
    "uhv4k-paper": SynthConfig("uhv4k-paper", frames=25, size=(3840, 2160), proxy=960, scenes=100),
    "uhv4k-open": SynthConfig("uhv4k-open", frames=25, size=(3840, 2160), proxy=960, scenes=100),
    "mini": SynthConfig("mini", frames=10, size=(960, 540), proxy=480, scenes=8),
}


@dataclass(frozen=True)
class Outcome:
    """The result for one clip."""

    name: str
    info: ClipInfo | None  # None if the source failed
    error: str | None = None


ProgressHook = Callable[[str, str, int, int], None]
"""Called from worker threads with clip name, stage, steps done and total."""


def synthesize(
    sources: Sequence[ClipSource],
    folder: str | Path,
    config: SynthConfig,
    *,
    depth: Callable[[int], DepthEstimator],
    flow: FlowEstimator,
    workers: int = 1,
    run: Callable[[list[ClipTask], Path], list[Outcome]] | None = None,
    choices: Sequence[tuple[str, str]] | None = None,
    progress: ProgressHook = lambda name, stage, done, total: None,
    finished: Callable[[Outcome], None] = lambda outcome: None,
) -> DatasetInfo:
    """Make or resume the dataset in `folder`. The same sources and configuration always give the same files.

    A source that fails is recorded with its reason; the others continue.

    Args:
        sources: One per clip.
        depth: Returns the depth estimator for a clip's seed.
        workers: Clips made at the same time.
        run: Makes the clips by `make_task` in another way than by so many threads, such as on a cluster.
        choices: Regime and part (train or test) of every source, as a manifest has them; drawn from the seed without.
        progress: Called after each step of a clip.

    Raises:
        InputError: The folder was made with other settings, another run is at work in it, or it cannot be written.
    """
    if workers < 1:
        raise InputError(f"expected at least one worker, got {workers}")
    folder = Path(folder)
    tasks = plan(sources, config, depth, flow, regimes=None if choices is None else [name for name, _ in choices])
    if choices is None:
        parts = split_clips({task.name: task.regime.name for task in tasks}, config.seed)
    else:
        parts = {
            part: tuple(task.name for task, (_, chosen) in zip(tasks, choices, strict=True) if chosen == part)
            for part in ("train", "test")
        }
    generator = _generator(tasks, config, flow)
    if choices is not None:
        generator["manifest"] = [list(choice) for choice in choices]
    info = DatasetInfo(generator=generator, regimes=tuple(map(dataclasses.asdict, REGIMES)), split={})
    with _locked(folder):
        _begin(folder, info)
        outcomes = run(tasks, folder) if run else _run(tasks, folder, workers, progress, finished)
        made = {outcome.name: outcome.info for outcome in outcomes if outcome.info}
        flagged = {
            name: tuple(check.name for check in clip.checks if not check.passed)
            for name, clip in made.items()
            if not clip.accepted
        }
        accepted = set(made) - set(flagged)
        info = dataclasses.replace(
            info,
            split={part: tuple(name for name in names if name in accepted) for part, names in parts.items()},
            flagged=dict(sorted(flagged.items())),
            failures=dict(sorted((outcome.name, outcome.error) for outcome in outcomes if outcome.error)),
            complete=True,
        )
        info.save(folder)
    return info


def plan(
    sources: Sequence[ClipSource],
    config: SynthConfig,
    depth: Callable[[int], DepthEstimator],
    flow: FlowEstimator,
    *,
    regimes: Sequence[str] | None = None,
) -> list[ClipTask]:
    """Fix name, regime and seed of every clip before the first is made. Regimes are drawn unless they are given."""
    if not sources:
        raise InputError("expected at least one source, got none")
    by_name = {regime.name: regime for regime in REGIMES}
    drawn = assign_regimes(len(sources), config.seed) if regimes is None else [by_name[name] for name in regimes]
    tasks = []
    for index, (source, regime) in enumerate(zip(sources, drawn, strict=True)):
        seed = config.seed * 1_000_003 + index
        slug = re.sub(r"[^a-z0-9]+", "-", Path(source.name).stem.lower()).strip("-")[:40]
        tasks.append(
            ClipTask(
                name=f"{index:04d}-{slug or 'clip'}",
                source=source,
                request=FrameRequest(
                    frames=config.frames,
                    fps=config.fps,
                    size=config.size,
                    proxy=config.proxy,
                    seed=seed,
                    depth=depth(seed),
                ),
                regime=regime,
                angstrom=config.angstrom,
                noise=config.noise,
                flow=flow,
            )
        )
    return tasks


def make_task(task: ClipTask, folder: Path, progress: ProgressHook = lambda name, stage, done, total: None) -> Outcome:
    """Make one clip of the dataset in `folder`, or return the one that is there."""
    final = folder / CLIPS_FOLDER / task.name
    if (final / CLIP_FILE).is_file():
        return Outcome(task.name, ClipInfo.load(final))
    work = folder / WORK_FOLDER / task.name
    try:
        return Outcome(task.name, make_clip(task, work, final, lambda *step: progress(task.name, *step)))
    except (LibraNetError, OSError) as error:
        # Free the space of a failed source: on a full disk the other clips may need it.
        shutil.rmtree(work, ignore_errors=True)
        return Outcome(task.name, None, f"{task.source.name}: {error}")


def _run(
    tasks: list[ClipTask],
    folder: Path,
    workers: int,
    progress: ProgressHook,
    finished: Callable[[Outcome], None],
) -> list[Outcome]:
    """Make the clips in threads: decoding, compression and tensor work all release the GIL."""
    outcomes = []
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(make_task, task, folder, progress) for task in tasks]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                logger.debug("%s: %s", outcome.name, outcome.error or "complete")
                outcomes.append(outcome)
                finished(outcome)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return outcomes


def _begin(folder: Path, info: DatasetInfo) -> None:
    """Write the first dataset.json, or check that the one there was made the same way."""
    if not (folder / DATASET_FILE).is_file():
        info.save(folder)
        return
    before = DatasetInfo.load(folder)
    changed = sorted(
        key
        for key in info.generator.keys() | before.generator.keys()
        if info.generator.get(key) != before.generator.get(key)
    )
    if changed or list(before.regimes) != _as_json(info.regimes):
        raise InputError(
            f"expected the options that {folder} was made with, got other values for "
            f"{', '.join(changed) or 'the regime table'}; choose another folder"
        )


def _generator(tasks: list[ClipTask], config: SynthConfig, flow: FlowEstimator) -> dict[str, Any]:
    import libranet

    return {
        "tool": "libranet synth",
        "tool_version": libranet.__version__,
        **_as_json(dataclasses.asdict(config)),
        "depth": sorted({"maps" if "depth" in task.source.describe() else task.request.depth.name for task in tasks}),
        "flow": flow.name,
        "sources": [task.name for task in tasks],
    }


def split_clips(regimes: Mapping[str, str], seed: int) -> dict[str, tuple[str, ...]]:
    """Split clips 80/20, drawn from the seed, so that every regime has its share of test clips as nearly as can be.

    Returns:
        The names of `train` and `test`. Two clips or more always give a test clip.
    """
    names = list(regimes)
    drawn = [names[i] for i in np.random.default_rng((seed, 80)).permutation(len(names))]
    sizes = Counter(regimes.values())
    taken: Counter[str] = Counter()
    test: set[str] = set()
    for _ in range(max(round(TEST_SHARE * len(names)), 1 if len(names) > 1 else 0)):
        left = [name for name in drawn if name not in test]
        # The regime that is furthest below its share is next; `max` takes the first drawn of equals.
        chosen = max(left, key=lambda name: TEST_SHARE * sizes[regimes[name]] - taken[regimes[name]])
        test.add(chosen)
        taken[regimes[chosen]] += 1
    return {
        "train": tuple(name for name in names if name not in test),
        "test": tuple(name for name in names if name in test),
    }


def _as_json(value: Any) -> Any:
    """Return the value as JSON restores it: tuples become lists."""
    return json.loads(json.dumps(value))


def _locked(folder: Path) -> IO[str]:
    """Lock the folder."""
    work = folder / WORK_FOLDER
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = locked_file(work / "lock")
    except OSError as error:
        raise InputError(f"could not write to {folder}: {error.strerror or error}") from error
    if lock is None:
        raise InputError(f"another run is working in {folder}; wait for it or stop it")
    return lock
