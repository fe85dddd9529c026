"""The reference backend: frames of every format in and out."""

import pytest
import torch

from libranet.errors import InputError
from libranet.frames import ColorConverter, ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import PLANAR_RGB16, RGB8, RGB16, RGB_FLOAT
from libranet.network import GridFilter, LiBrANet, stream_step
from libranet.runtime import make_backend
from libranet.runtime.plain import PlainBackend

LAYOUTS = [
    PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False),
    PixelLayout("yuv422p10le", "yuv", 10, 2, 1, alpha=False),
    PixelLayout("yuv444p12le", "yuv", 12, 1, 1, alpha=False),
    PixelLayout("gray", "gray", 8, 1, 1, alpha=False),
    RGB8,
    RGB16,
    RGB_FLOAT,
    PLANAR_RGB16,
]


def random_frames(layout: PixelLayout, count: int, *, height: int = 21, width: int = 33) -> Frames:
    format_ = FrameFormat(width, height, layout, ColorSpec(full_range=layout.model != "yuv"))
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand(shape, generator=generator) for shape in format_.plane_shapes(count))
    return Frames(tuple((v * layout.peak).to(layout.dtype) for v in values), format_)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_strength_zero_returns_every_sample(tiny_model: LiBrANet, layout: PixelLayout) -> None:
    frames = random_frames(layout, 4)
    backend = make_backend(tiny_model, strength=0.0)
    restored = backend.push(frames) + backend.flush()
    assert len(restored) == 4
    for index, frame in enumerate(restored):
        assert all(torch.equal(a, b) for a, b in zip(frame.after, frames.plane_list(index), strict=True))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_change_is_the_networks(tiny_model: LiBrANet, layout: PixelLayout) -> None:
    """Restored samples are the converter's: the original plus the network's change of the RGB image."""
    frames = random_frames(layout, 4)
    converter = ColorConverter(layout, frames.format.color)
    state, wanted = None, []
    for index in range(8):
        if index >= 4 and not state.waiting:
            break
        rgb = converter.to_rgb(frames.plane_list(index)) if index < 4 else None
        image, state = stream_step(tiny_model, rgb, state)
        if image is not None:
            planes = frames.plane_list(len(wanted))
            wanted.append(converter.add_change(planes, image - converter.to_rgb(planes)))
    backend = make_backend(tiny_model)
    restored = backend.push(frames) + backend.flush()
    for got, want in zip(restored, wanted, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(got.after, want, strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(got.after, got.before, strict=True))


def test_batches_cuts_and_single_frames_agree(tiny_model: LiBrANet) -> None:
    frames = random_frames(LAYOUTS[0], 7)
    cuts = [index == 3 for index in range(7)]
    batch, single = (PlainBackend(tiny_model, grid_filter=GridFilter(0.3, 10.0)) for _ in range(2))
    together = [r.after for r in batch.push(frames, cuts=cuts) + batch.flush()]
    apart = []
    for index, cut in enumerate(cuts):
        one = Frames(tuple(plane[index : index + 1] for plane in frames.planes), frames.format)
        apart += [r.after for r in single.push(one, cuts=(cut,))]
    apart += [r.after for r in single.flush()]
    assert len(together) == len(apart) == 7
    assert all(torch.equal(a, b) for x, y in zip(together, apart, strict=True) for a, b in zip(x, y, strict=True))


def test_frames_are_copied_and_arrays_used_again(tiny_model: LiBrANet) -> None:
    frames = random_frames(RGB8, 9)
    backend, places, restored = PlainBackend(tiny_model), set(), []
    buffer = torch.empty(1, *frames.planes[0].shape[1:], dtype=torch.uint8)
    for image in frames.planes[0]:
        buffer[0] = image
        ready = backend.push(Frames((buffer,), frames.format))
        places |= {r.before[0].data_ptr() for r in ready}
        restored += [r.after[0] for r in ready]
    restored += [r.after[0] for r in backend.flush()]
    whole = PlainBackend(tiny_model)
    assert all(torch.equal(a, r.after[0]) for a, r in zip(restored, whole.push(frames) + whole.flush(), strict=True))
    assert len(places) <= tiny_model.config.window // 2 + 2


def test_a_refused_frame_leaves_the_stream_as_it_was(tiny_model: LiBrANet) -> None:
    frames = random_frames(RGB8, 3)
    backend = PlainBackend(tiny_model)
    backend.push(frames)
    with pytest.raises(InputError, match="at least 16x16"):
        backend.push(random_frames(RGB8, 1, height=8))
    assert len(backend.flush()) == 2


def test_a_new_format_ends_the_stream(tiny_model: LiBrANet) -> None:
    backend = PlainBackend(tiny_model)
    assert len(backend.push(random_frames(RGB8, 3))) == 1
    ready = backend.push(random_frames(LAYOUTS[1], 1))
    assert [r.format.layout.name for r in ready] == ["rgb24", "rgb24"]
    assert [r.format.layout.name for r in backend.flush()] == ["yuv422p10le"]


def test_planes_that_do_not_fit_their_format_are_refused() -> None:
    format_ = FrameFormat(32, 16, LAYOUTS[0])
    with pytest.raises(InputError, match="expected yuv420p planes"):
        Frames(tuple(torch.zeros(1, 16, 32, dtype=torch.uint8) for _ in range(3)), format_)
