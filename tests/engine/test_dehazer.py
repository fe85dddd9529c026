import subprocess
import sys

import numpy as np
import pytest
import torch

import libranet
from libranet import Dehazer
from libranet.errors import InputError
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.network import GridFilter, LiBrANet, stream_step
from libranet.runtime import make_backend


def frames(count: int, dtype=np.uint8) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    base = generator.uniform(0, 1, (32, 48, 3))
    moving = [np.clip(np.roll(base, index, axis=1), 0, 1) for index in range(count)]
    if dtype == np.float32:
        return [frame.astype(np.float32) for frame in moving]
    return [np.rint(frame * np.iinfo(dtype).max).astype(dtype) for frame in moving]


def run(dehazer: Dehazer, clip: list) -> list:
    return [out for frame in clip for out in dehazer.push(frame)] + dehazer.flush()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_one_frame_out_per_frame_in_as_the_network_says(tiny_model, dtype, count):
    clip = frames(count, dtype)
    out = run(Dehazer(tiny_model, steady=0.0, device="cpu"), clip)
    assert len(out) == count
    scale = 1.0 if dtype == np.float32 else np.iinfo(dtype).max
    state, expected = None, []
    for frame in [*clip, *[None] * count]:
        tensor = None if frame is None else torch.from_numpy(frame.astype(np.float32) / scale).permute(2, 0, 1)[None]
        if frame is None and not state.waiting:
            break
        restored, state = stream_step(tiny_model, tensor, state)
        if restored is not None:
            expected.append(restored[0].permute(1, 2, 0).numpy())
    for got, want in zip(out, expected, strict=True):
        assert (got.dtype, got.shape) == (dtype, (32, 48, 3))
        assert np.abs(got / scale - want).max() <= (0.5 / scale if scale > 1 else 0) + 1e-5


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_strength_zero_is_the_input_bit_for_bit(tiny_model, dtype):
    clip = frames(6, dtype)
    for before, after in zip(clip, run(Dehazer(tiny_model, strength=0.0, device="cpu"), clip), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("shape", [(3, 32, 48), (1, 3, 32, 48)])
def test_torch_frames_keep_shape_and_dtype(tiny_model, shape):
    clip = [torch.from_numpy(frame).permute(2, 0, 1).reshape(shape) for frame in frames(4)]
    out = run(Dehazer(tiny_model, device="cpu"), clip)
    plain = run(Dehazer(tiny_model, device="cpu"), frames(4))
    for tensor, array in zip(out, plain, strict=True):
        assert (tensor.shape, tensor.dtype) == (shape, torch.uint8)
        assert np.array_equal(tensor.reshape(3, 32, 48).permute(1, 2, 0).numpy(), array)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_caller_may_reuse_its_buffer(tiny_model, kind, dtype):
    clip = frames(6, dtype)
    expected = run(Dehazer(tiny_model, device="cpu"), clip)
    dehazer, buffer, out = Dehazer(tiny_model, device="cpu"), np.empty_like(clip[0]), []
    shown = buffer if kind == "numpy" else torch.from_numpy(buffer).permute(2, 0, 1)
    for frame in clip:
        buffer[...] = frame
        out += dehazer.push(shown)
    buffer[...] = 0
    out += dehazer.flush()
    arrays = out if kind == "numpy" else [tensor.permute(1, 2, 0).numpy() for tensor in out]
    assert all(np.array_equal(a, b) for a, b in zip(arrays, expected, strict=True))


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("cut", [False, True])
def test_a_rejected_frame_leaves_the_stream_as_it_was(tiny_model, live, cut):
    clip = frames(6)
    expected = run(Dehazer(tiny_model, live=live, device="cpu"), clip)
    dehazer, out = Dehazer(tiny_model, live=live, device="cpu"), []
    bad = [np.full((32, 48, 3), 2.0), np.zeros((8, 48, 3), np.uint8), np.zeros((32, 48, 3), np.int64)]
    for frame in clip:
        for wrong in [*bad, *([] if cut else [np.zeros((64, 48, 3), np.uint8)])]:
            if out:
                with pytest.raises(InputError):
                    dehazer.push(wrong, cut=cut)
        out += dehazer.push(frame)
    out += dehazer.flush()
    assert all(np.array_equal(a, b) for a, b in zip(out, expected, strict=True))


def test_live_frames_come_back_at_once(tiny_model):
    dehazer = Dehazer(tiny_model, live=True, device="cpu")
    assert [len(dehazer.push(frame)) for frame in frames(4)] == [1, 1, 1, 1]
    assert dehazer.flush() == []


def test_nothing_bleeds_over_a_cut(tiny_model):
    """With a cut, each shot comes out as if the other did not exist; without it, it does not."""
    first, second = frames(5), [255 - frame for frame in frames(5)]
    dehazer = Dehazer(tiny_model, device="cpu")
    joined = [
        out for i, frame in enumerate(first + second) for out in dehazer.push(frame, cut=i == 5)
    ] + dehazer.flush()
    apart = run(Dehazer(tiny_model, device="cpu"), first) + run(Dehazer(tiny_model, device="cpu"), second)
    assert all(np.array_equal(a, b) for a, b in zip(joined, apart, strict=True))
    bleeding = run(Dehazer(tiny_model, device="cpu"), first + second)
    assert not all(np.array_equal(a, b) for a, b in zip(bleeding, apart, strict=True))


def test_colours_are_kept_steady_over_so_many_seconds(tiny_model):
    clip = [(frame // 4 + 90).astype(np.uint8) for frame in frames(9)]
    jumpy, steady, slow = (
        np.stack(run(Dehazer(tiny_model, device="cpu", **settings), clip)).astype(float)
        for settings in ({"steady": 0.0}, {}, {"rate": 0.5})
    )
    assert np.array_equal(slow, jumpy), "frames two seconds apart have nothing to do with each other"

    def pumping(restored):  # how much the change that the network makes, averaged over a frame, moves
        return np.abs(np.diff((restored - np.stack(clip)).mean(axis=(1, 2, 3)))).mean()

    assert 0.0 < pumping(steady) < 0.6 * pumping(jumpy)
    with pytest.raises(InputError, match="expected steady from 0 to 2 seconds, got 3"):
        Dehazer(tiny_model, steady=3.0, device="cpu")


def test_a_single_image(tiny_model):
    dehazer = Dehazer(tiny_model, device="cpu")
    (image,) = frames(1)
    assert np.array_equal(dehazer.image(image), run(Dehazer(tiny_model, steady=0.0, device="cpu"), [image])[0])
    dehazer.push(image)
    with pytest.raises(InputError, match="flush it first"):
        dehazer.image(image)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((32, 48), np.uint8), r"\[H, W, 3\]"),
        (np.zeros((32, 48, 3), np.int64), "uint8, uint16 or floating-point"),
        (np.full((32, 48, 3), 2.0), r"in \[0, 1\]"),
        (np.zeros((8, 48, 3), np.uint8), "at least 16x16"),
        (torch.zeros(2, 3, 32, 48), r"\[3, H, W\]"),
    ],
)
def test_mistakes(tiny_model, frame, message):
    with pytest.raises(InputError, match=message):
        Dehazer(tiny_model, device="cpu").push(frame)


def test_bad_strength(tiny_model: LiBrANet):
    with pytest.raises(InputError, match=r"0 to 1\.5"):
        Dehazer(tiny_model, strength=2.0)


def test_frames_need_no_pyav():
    """Machines that only train or serve tensors may lack it."""
    program = "import sys; sys.modules['av'] = None; import libranet; libranet.Dehazer; libranet.engine.load_network"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_public_face_shows_the_engine():
    assert {"Dehazer", "dehaze_video", "DehazeOptions"} <= set(libranet.__all__)
    assert libranet.dehaze_video is libranet.engine.dehaze_video
    with pytest.raises(AttributeError):
        _ = libranet.nothing


def test_a_buffer_may_be_used_again(tiny_model):
    """Capture loops hand out the same array for every frame."""
    clip = frames(6)
    buffer, dehazer, out = np.empty_like(clip[0]), Dehazer(tiny_model, device="cpu"), []
    for frame in clip:
        buffer[...] = frame
        out += dehazer.push(buffer)
        buffer[...] = 7
    out += dehazer.flush()
    for got, want in zip(out, run(Dehazer(tiny_model, device="cpu"), clip), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("bad", [np.zeros((8, 48, 3), np.uint8), np.full((32, 48, 3), 2.0), "frame", np.zeros((2, 2))])
def test_a_refused_frame_is_left_out(tiny_model, bad):
    clip = frames(6)
    dehazer, out = Dehazer(tiny_model, device="cpu"), []
    for index, frame in enumerate(clip):
        if index in (0, 3):
            with pytest.raises(InputError):
                dehazer.push(bad)
        out += dehazer.push(frame)
    out += dehazer.flush()
    for got, want in zip(out, run(Dehazer(tiny_model, device="cpu"), clip), strict=True):
        assert np.array_equal(got, want)


def test_many_frames_at_once(tiny_model):
    clip, cuts = frames(7), [index == 4 for index in range(7)]
    dehazer = Dehazer(tiny_model, device="cpu")
    out = dehazer.push_many(clip[:2]) + dehazer.push_many(clip[2:], cuts=cuts[2:]) + dehazer.flush()
    for got, want in zip(out, run(Dehazer(tiny_model, device="cpu"), clip[:4]), strict=False):
        assert np.array_equal(got, want)
    assert len(out) == 7


def test_other_arrays_come_and_go_by_dlpack(tiny_model):
    class Foreign:
        """What another library's array shows of itself."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **arguments: object) -> object:
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    clip = frames(4)
    out = run(Dehazer(tiny_model, device="cpu"), [Foreign(frame) for frame in clip])
    for got, want in zip(out, run(Dehazer(tiny_model, device="cpu"), clip), strict=True):
        assert np.array_equal(np.from_dlpack(got), want)


def test_frames_in_their_own_samples_come_back_as_such(tiny_model):
    color = ColorSpec("bt709", full_range=False)
    form = FrameFormat(64, 48, PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False), color)
    generator = torch.Generator().manual_seed(2)
    clip = []
    for _ in range(5):
        planes = [torch.randint(64, 900, shape, generator=generator) for shape in form.plane_shapes(1)]
        clip.append(Frames(tuple(plane.to(torch.uint16) for plane in planes), form))
    out = run(Dehazer(tiny_model, device="cpu"), clip)
    backend = make_backend(tiny_model, grid_filter=GridFilter(1.0, 25.0))
    expected = []
    for frame in [*clip, None]:
        ready = backend.flush() if frame is None else backend.push(frame)
        expected += [[plane.clone() for plane in restored.after] for restored in ready]
    assert len(out) == len(expected) == 5
    for frame, planes, hazy in zip(out, expected, clip, strict=True):
        assert frame.format == form
        assert all(torch.equal(a[0], b) for a, b in zip(frame.planes, planes, strict=True))
        assert not torch.equal(frame.planes[0], hazy.planes[0])
    with pytest.raises(InputError, match="one by one"):
        Dehazer(tiny_model, device="cpu").push(Frames(tuple(p.repeat(2, 1, 1) for p in clip[0].planes), form))
