"""The three stages: they overlap, stay bounded, and a failure in any of them ends all of them."""

import threading
import time
from fractions import Fraction

import pytest

from clips import Clip, read_all, same_frames, write_clip
from libranet.engine import DehazeOptions, dehaze_video, pipeline
from libranet.engine.pipeline import QUEUE_FRAMES, run_pipeline
from libranet.engine.stream import LateFrames
from libranet.errors import InputError
from libranet.network import save_checkpoint
from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame, open_video


class Worker:
    """Stands for the network: hands every frame on, slowly, or fails."""

    prepares_with_first_frame, backend_name = False, "stand-in"

    def __init__(self, delay: float = 0.0, fail_at: int | None = None) -> None:
        self.delay, self.fail_at, self.seen = delay, fail_at, 0

    def stage(self, frame: SourceFrame) -> SourceFrame:
        return frame

    def push(self, frame: SourceFrame, *, cut: bool = False) -> list[SourceFrame]:
        time.sleep(self.delay)
        self.seen += 1
        if self.seen == self.fail_at:
            raise InputError("the network stumbled")
        return [frame]

    def flush(self) -> list[SourceFrame]:
        return []

    def wait(self, finished: SourceFrame) -> None:
        return None

    def pack(self, finished: SourceFrame) -> SourceFrame:
        return finished


class Sink:
    def __init__(self, delay: float = 0.0, fail_at: int | None = None) -> None:
        self.delay, self.fail_at = delay, fail_at
        self.times: list[int] = []
        self.finished = False

    def write(self, frame: SourceFrame) -> None:
        time.sleep(self.delay)
        if len(self.times) + 1 == self.fail_at:
            raise InputError("the disk stumbled")
        self.times.append(frame.pts)

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def frames(tmp_path):
    with open_video(write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=30))) as reader:
        return list(reader.frames())


def slowly(frames, delay: float, counter: list[int], fail_at: int | None = None):
    for index, frame in enumerate(frames):
        time.sleep(delay)
        if index == fail_at:
            raise InputError("the file stumbled")
        counter.append(index)
        yield frame


def test_stages_overlap(frames):
    """Three stages of equal length take about as long as one, not as three."""
    begin = time.perf_counter()
    sink = Sink(0.02)
    result = run_pipeline(slowly(frames, 0.02, []), Worker(0.02), sink, detect_shots=False)
    elapsed = time.perf_counter() - begin
    assert sink.times == [frame.pts for frame in frames]
    assert sink.finished
    busy = sum(result.seconds.values())
    assert elapsed < 0.6 * busy


def test_the_first_frame_of_a_gpu_counts_as_the_start(frames):
    class Compiling(Worker):
        prepares_with_first_frame = True

        def push(self, frame, *, cut=False):
            time.sleep(0.3 if self.seen == 0 else 0.0)
            return super().push(frame)

    result = run_pipeline(iter(frames), Compiling(), Sink(), detect_shots=False)
    assert result.start_seconds >= 0.3
    assert result.seconds["network"] < 0.3


def test_a_slow_network_holds_the_decoder_back(frames):
    decoded: list[int] = []
    worker = Worker(0.01)
    gaps = []

    class Watching(Worker):
        def push(self, frame, *, cut=False):
            gaps.append(len(decoded) - worker.seen)
            return worker.push(frame)

    run_pipeline(slowly(frames, 0.0, decoded), Watching(), Sink(), detect_shots=False)
    assert max(gaps) <= QUEUE_FRAMES + 2


@pytest.mark.parametrize("stage", ["file", "network", "disk"])
def test_a_failure_ends_all_stages(frames, stage):
    before = threading.active_count()
    source = slowly(frames, 0.0, [], fail_at=12 if stage == "file" else None)
    worker = Worker(fail_at=12 if stage == "network" else None)
    sink = Sink(fail_at=12 if stage == "disk" else None)
    with pytest.raises(InputError, match=f"the {stage} stumbled"):
        run_pipeline(source, worker, sink, detect_shots=False)
    assert threading.active_count() == before
    assert not sink.finished


def test_late_frames_of_a_live_source_are_dropped_and_counted(frames):
    sink = Sink()
    late = LateFrames(Fraction(1, 1_000_000), allowed=0.0)  # all frames are due at once
    result = run_pipeline(slowly(frames, 0.002, []), Worker(0.02), sink, detect_shots=False, late=late)
    assert result.dropped > 5
    assert result.dropped + len(sink.times) == len(frames)


def test_a_burst_that_is_early_is_not_dropped(frames):
    """HLS sends seconds of video at once. They are ahead of the clock: nobody is late."""
    sink = Sink()
    late = LateFrames(Fraction(1), allowed=1.0)  # the next frame is due in a minute
    result = run_pipeline(frames, Worker(0.01), sink, detect_shots=False, late=late)
    assert (result.dropped, len(sink.times)) == (0, len(frames))


@pytest.mark.parametrize("cut_at", [1, 2, 5, 8])
def test_nothing_bleeds_over_a_detected_cut(tmp_path, tiny_model, cut_at):
    """A video of two shots equals its shots dehazed on their own."""
    clip = Clip(codec="ffv1", frames=9, cut_at=cut_at, width=96, height=64)
    source = write_clip(tmp_path / "in.mkv", clip)
    # Grids that are settled over whole shots have their knots at multiples of a quarter second of the video.
    report = dehaze_video(
        source, tmp_path / "whole.mkv", model=tiny_model, options=DehazeOptions(steady=1.0), device="cpu"
    )
    assert report.cuts == 1
    edge = cut_at / 25 - 0.01
    parts = (DehazeOptions(end=edge, steady=1.0), DehazeOptions(start=edge, steady=1.0))
    apart = []
    for index, options in enumerate(parts):
        output = tmp_path / f"part{index}.mkv"
        dehaze_video(source, output, model=tiny_model, options=options, device="cpu")
        apart += read_all(output)[1]
    whole = read_all(tmp_path / "whole.mkv")[1]
    assert same_frames(whole, apart)
    blind = DehazeOptions(shot_detection=False, steady=1.0)
    dehaze_video(source, tmp_path / "blind.mkv", model=tiny_model, options=blind, device="cpu")
    assert not same_frames(read_all(tmp_path / "blind.mkv")[1], apart)


def test_ten_bits_stay_ten_bits(tmp_path, tiny_model):
    """The result uses code values that no 8-bit step could have left."""
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", pixel_format="yuv420p10le", frames=3))
    dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, device="cpu")
    for planes in read_all(tmp_path / "out.mkv")[1]:
        remainders = [len(set((plane % 4).ravel().tolist())) for plane in planes]
        assert remainders == [4, 4, 4]


def test_closing_early_leaves_the_source_as_it_is(tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=4))
    before = source.read_bytes()
    with open_video(source) as reader:
        first = next(iter(reader.frames()))
        plane_views(first.image)[0][...] = 0
    assert source.read_bytes() == before


def test_strength_zero_is_exact_in_half_precision_too(tmp_path, tiny_model):
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=3))
    for strength, equal in ((0.0, True), (1.0, False)):
        dehaze_video(
            source,
            tmp_path / "out.mkv",
            model=tmp_path / "tiny.safetensors",
            options=DehazeOptions(strength=strength),
            device="cpu",
            precision="bf16",
            overwrite=True,
        )
        assert same_frames(read_all(source)[1], read_all(tmp_path / "out.mkv")[1]) == equal


def test_a_live_output_gets_the_newest_frame(frames):
    """Nobody waits: at most one frame came between the one that the network takes and the newest."""
    newest, behind = [-1], []

    class Watching(Worker):
        def push(self, frame: SourceFrame, *, cut: bool = False) -> list[SourceFrame]:
            behind.append(newest[0] - frame.pts)
            return super().push(frame, cut=cut)

    def coming():
        for frame in slowly(frames, 0.01, []):
            newest[0] = frame.pts
            yield frame

    sink = Sink()
    result = run_pipeline(coming(), Watching(0.03), sink, detect_shots=False, newest=True)
    step = frames[1].pts - frames[0].pts
    assert result.frames + result.dropped == len(frames)
    assert 0 < result.dropped < len(frames) - 2
    assert sink.times[-1] == frames[-1].pts
    assert sorted(behind)[len(behind) // 2] <= 2 * step


def test_a_cut_is_kept_when_its_first_frame_is_left_out(frames, monkeypatch):
    monkeypatch.setattr(pipeline, "is_cut", lambda detector, frame: frame is frames[3])
    seen = []

    class Slow(Worker):
        def push(self, frame: SourceFrame, *, cut: bool = False) -> list[SourceFrame]:
            seen.append((frame.pts, cut))
            time.sleep(0.2 if len(seen) == 1 else 0)  # meanwhile all others come
            return super().push(frame, cut=cut)

    result = run_pipeline(slowly(frames[:8], 0.005, []), Slow(), Sink(), newest=True)
    assert result.dropped >= 4
    assert [pts for pts, cut in seen if cut] == [seen[1][0]]
