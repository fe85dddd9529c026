"""Controls: each the identity at its neutral value, each doing what its name says, on every pixel format."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from clips import Clip, read_all, same_frames, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.adjust import Adjuster, Adjustments, shadow_map, sky_map, strength_at
from libranet.engine.preview import PreviewFrames
from libranet.errors import InputError
from libranet.frames import ColorConverter, ColorSpec, FrameFormat
from libranet.frames.format import RGB8
from libranet.images import Image, write_image
from libranet.runtime import Restored
from libranet.video.pixels import layout_of

FORMATS = ["yuv420p", "yuv422p10le", "yuv444p", "gbrp", "gray", "rgb24"]
SIZE = (48, 64)


def restored(pixel_format: str, *, darker: float = 0.6) -> Restored:
    """A frame and what a network could have made of it."""
    layout = RGB8 if pixel_format == "rgb24" else layout_of(pixel_format)
    spec = ColorSpec("bt709", full_range=layout.model != "yuv")
    converter = ColorConverter(layout, spec)
    torch.manual_seed(0)
    rgb = torch.rand(1, 3, *SIZE) * 0.5 + 0.3
    clear = (rgb * torch.tensor([darker, darker * 0.9, darker * 0.7]).view(1, 3, 1, 1)).clamp(0, 1)
    format_ = FrameFormat(SIZE[1], SIZE[0], layout, spec)
    return Restored(tuple(converter.encode(rgb)), tuple(converter.encode(clear)), format_)


def mean_light(frame: Restored, planes) -> float:
    return float(ColorConverter(frame.format.layout, frame.format.color).to_rgb(planes).mean())


def apply(adjustments: Adjustments, frame: Restored, seconds: float = 0.0, **more) -> Restored:
    return Adjuster(adjustments, frame.format, device="cpu", **more).apply(frame, seconds)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(
    "adjustments",
    [
        Adjustments(),
        Adjustments(strength_keys=((0.0, 1.0), (9.0, 1.0))),
        Adjustments(color=1.0, protect_sky=0.0),
    ],
)
def test_neutral_values_are_the_identity(pixel_format, adjustments):
    frame = restored(pixel_format)
    for a, b in zip(frame.after, apply(adjustments, frame).after, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(
    "adjustments",
    [
        Adjustments(exposure="keep", protect_sky=0.7, protect_shadows=0.5, color=1.3),
        Adjustments(exposure="keep"),
        Adjustments(color=0.0),
    ],
)
def test_no_change_stays_no_change(pixel_format, adjustments):
    """At strength 0 the restored frame is the original, whatever the controls say."""
    frame = restored(pixel_format)
    frame = replace(frame, after=frame.before)
    for a, b in zip(frame.before, apply(adjustments, frame).after, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_strength_zero_at_a_key_frame_is_the_original(pixel_format):
    frame = restored(pixel_format)
    keys = ((0.0, 0.0), (2.0, 1.0))
    for a, b in zip(frame.before, apply(Adjustments(strength_keys=keys), frame, 0.0).after, strict=True):
        assert torch.equal(a, b)
    half = apply(Adjustments(strength_keys=keys), frame, 1.0).after[0].float()
    middle = (frame.before[0].float() + frame.after[0].float()) / 2
    assert (half - middle).abs().max() <= 0.51
    assert strength_at(keys, 5.0) == 1.0
    assert strength_at(keys, 0.5) == 0.25


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("darker", [0.5, 0.8])
def test_exposure_is_kept(pixel_format, darker):
    frame = restored(pixel_format, darker=darker)
    before = mean_light(frame, frame.before)
    assert mean_light(frame, frame.after) < 0.9 * before
    kept = mean_light(frame, apply(Adjustments(exposure="keep"), frame).after)
    assert abs(kept / before - 1) < 0.05


def test_exposure_does_not_flicker():
    """One frame that comes out darker moves the exposure a little, and a cut begins anew."""
    steady, odd = restored("yuv444p", darker=0.8), restored("yuv444p", darker=0.5)
    adjuster = Adjuster(Adjustments(exposure="keep"), steady.format, device="cpu", rate=10.0)
    for _ in range(10):
        last = adjuster.apply(steady, 0.0)
    alone = apply(Adjustments(exposure="keep"), odd)
    among = adjuster.apply(odd, 0.0)
    assert mean_light(odd, odd.after) < mean_light(odd, among.after) < mean_light(odd, alone.after)
    after_cut = adjuster.apply(odd, 0.0, cut=True)
    assert all(torch.equal(a, b) for a, b in zip(after_cut.after, alone.after, strict=True))
    assert mean_light(steady, last.after) > mean_light(steady, steady.after)


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_mask_limits_the_change(pixel_format, tmp_path):
    mask = np.zeros((*SIZE, 3), np.uint8)
    mask[:, SIZE[1] // 2 :] = 255
    write_image(tmp_path / "mask.png", Image(mask))
    frame = restored(pixel_format)
    out = apply(Adjustments(mask=str(tmp_path / "mask.png")), frame)
    for before, after, mixed in zip(frame.before, frame.after, out.after, strict=True):
        third = before.shape[1] // 3
        assert torch.equal(mixed[:, :third], before[:, :third])
        assert torch.equal(mixed[:, -third:], after[:, -third:])


def test_sky_and_shadows_are_found():
    rgb = torch.rand(1, 3, 36, 64) * 0.5
    rgb[:, :, :14] = torch.tensor([0.75, 0.8, 0.9]).view(1, 3, 1, 1)
    rgb[:, :, 30:] = 0.02
    sky, shadows = sky_map(rgb), shadow_map(rgb)
    assert sky[..., 2:10, :].min() > 0.8
    assert sky[..., 20:, :].max() < 0.1
    assert shadows[..., 31:, :].min() > 0.95
    assert shadows[..., :14, :].max() == 0


def test_colour_zero_changes_brightness_only():
    frame = restored("yuv444p")
    out = apply(Adjustments(color=0.0), frame)
    assert torch.equal(out.after[0], frame.after[0])
    assert torch.equal(out.after[1], frame.before[1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"exposure": "bright"}, "network or keep"),
        ({"protect_sky": 2.0}, "protect_sky from 0 to 1"),
        ({"color": float("nan")}, "color from 0 to 1.5"),
        ({"strength_keys": ((1.0, 0.5), (0.0, 1.0))}, "increasing times"),
    ],
)
def test_mistakes(wrong, message):
    with pytest.raises(InputError, match=message):
        Adjustments(**wrong)


def test_a_resumed_run_has_the_same_exposure(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=60, width=96, height=64, cut_at=33))
    options = DehazeOptions(
        segment_frames=10, adjust=Adjustments(exposure="keep", protect_sky=0.5, strength_keys=((0.0, 0.2), (2.0, 1.2)))
    )
    dehaze_video(source, tmp_path / "whole.mkv", model=tiny_model, options=options, device="cpu")

    def stop(progress) -> None:
        if progress.frames >= 47:
            raise KeyboardInterrupt

    output = tmp_path / "out.mkv"
    with pytest.raises(KeyboardInterrupt):
        dehaze_video(source, output, model=tiny_model, options=options, device="cpu", progress=stop)
    report = dehaze_video(source, output, model=tiny_model, options=options, device="cpu", resume=True)
    assert report.resumed_frames >= 40
    assert same_frames(read_all(output)[1], read_all(tmp_path / "whole.mkv")[1])


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_preview_shows_the_mask_upright_as_a_run_does(turns, tmp_path, tiny_model):
    stored = torch.rand(1, 3, 48, 64)
    upright = (48, 64) if turns % 2 == 0 else (64, 48)
    mask = np.zeros((*upright, 3), np.uint8)
    mask[: upright[0] // 2] = 255
    write_image(tmp_path / "mask.png", Image(mask))
    frames = PreviewFrames((stored,), 0.0, turns)
    options = DehazeOptions(adjust=Adjustments(mask=str(tmp_path / "mask.png")), backend="plain")
    changed = (frames.restore(tiny_model, options) != frames.before).any(2).mean(1)
    assert changed[: upright[0] // 2].min() > 0.5
    assert changed[upright[0] // 2 :].max() == 0
