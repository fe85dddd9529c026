"""Haze over windows in one kernel against the reference, on samples as training draws them."""

import dataclasses

import pytest
import torch

from clear_images import haze_config, small_source
from libranet.haze.kinds import HazeConfig
from libranet.haze.parameters import HazeParameters
from libranet.haze.windows import reference
from libranet.training.dataloader import OnlineHazeSource
from libranet.training.distributed import Shard

EVERYTHING = haze_config(
    density={"patch_probability": 1.0, "residual_probability": 1.0},
    camera={"noise_std": 0.0, "dull_probability": 1.0, "jitter_probability": 0.7, "shading": 0.4},
    sky={"recolour_probability": 0.7, "swap_probability": 0.7},
    geometry={"motion": 0.05, "aspect_jitter": 0.3},
    regimes={"share": 0.3},
    varied={"share": 0.28, "linear_light_probability": 0.7, "fog_probability": 0.7},
    footage={"share": 0.42, "opaque": (0.2, 0.6), "fog_probability": 0.7},
    front={"probability": 0.0},
    recording={"drift_probability": 0.0, "noise_std": 0.0, "sharpening": 0.0, "codec_probability": 0.0},
)  # fmt: skip
STILL = haze_config(camera={"noise_std": 0.0}, geometry={"still_probability": 1.0, "motion": 0.05})


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the interpreter a program costs much and a pixel little."""
    from libranet.haze.windows import triton as haze_triton

    monkeypatch.setattr(haze_triton, "BLOCK", 1024)


def make(device: str, haze: HazeConfig, *, kernel: bool, batch: int = 3, outputs: int = 1) -> OnlineHazeSource:
    from libranet.haze.windows import triton

    source = small_source(haze=haze, batch=batch, outputs=outputs)
    tensors = {name: getattr(source.bank, name).to(device) for name in ("fine", "coarse", "depth")}
    tensors["depth"][:, :, :12] = 255  # a sky in all of them, a third of the height
    sky = torch.full((len(source.bank),), 1 / 3)
    facts = dataclasses.replace(source.bank.facts, sky=sky[:, None].expand(-1, 3), skyline=sky, open_sky=sky)
    source.bank = dataclasses.replace(source.bank, **tensors, facts=facts)
    source.haze_windows = triton.haze_windows if kernel else reference.haze_windows
    return source


@pytest.mark.parametrize("step", [0, 1])  # a square crop and a wide one
def test_matches_the_reference(device: str, step: int) -> None:
    ours, plain = (make(device, EVERYTHING, kernel=kernel).batch(step, Shard()) for kernel in (True, False))
    own_skies = haze_config(EVERYTHING, sky={"recolour_probability": 0.0, "swap_probability": 0.0})
    assert (make(device, own_skies, kernel=False).batch(step, Shard()).clear - plain.clear).abs().max() > 0.1
    torch.testing.assert_close(ours.clear, plain.clear, atol=1e-4, rtol=0)
    off = (ours.hazy - plain.hazy).abs() * 255
    assert off.max() < 1.01  # a value on the edge of two bytes may round either way
    assert (off > 0.01).float().mean() < 0.01


def test_the_row_of_a_sample_holds_every_parameter_once(device: str) -> None:
    from libranet.haze.windows.triton import ENTRIES, OFFSETS, ROW, _pack

    parameters: list[HazeParameters] = []
    source = make(device, EVERYTHING, kernel=False)

    def keep(images, depths, drawn, size, **options):
        parameters.append(drawn)
        return reference.haze_windows(images, depths, drawn, size, **options)

    source.haze_windows = keep
    source.batch(0, Shard())
    rows = _pack(parameters[0])
    assert rows.shape == (3, ROW)
    names = [
        (group.name, field.name)
        for group in dataclasses.fields(HazeParameters)
        for field in dataclasses.fields(getattr(parameters[0], group.name))
    ]
    assert {*names} - {("view", "image"), ("sky", "donor")} == {(group, name) for group, name, _ in ENTRIES}
    for group, name, width in ENTRIES:
        begin = getattr(OFFSETS, f"{group}_{name}")
        value = getattr(getattr(parameters[0], group), name)
        assert torch.equal(rows[:, begin : begin + width], value.reshape(3, -1)), (group, name)


def test_a_still_window_is_one_frame(device: str) -> None:
    batch, plain = (make(device, STILL, kernel=kernel).batch(0, Shard()) for kernel in (True, False))
    assert batch.still
    assert batch.hazy.shape == plain.hazy.shape
    assert batch.hazy.shape[1] == 1
    assert ((batch.hazy - plain.hazy).abs() * 255).max() < 1.01


def test_noise_has_the_drawn_strength(device: str) -> None:
    quiet, loud = (make(device, haze_config(camera={"noise_std": noise}), kernel=True) for noise in (0.0, 0.012))
    a, b = (source.batch(0, Shard()) for source in (quiet, loud))
    assert torch.equal(a.clear, b.clear)
    middle = ((a.hazy > 0.1) & (a.hazy < 0.9)).float()
    spread = (((b.hazy - a.hazy) * middle).square().sum((1, 2, 3, 4)) / middle.sum((1, 2, 3, 4))).sqrt()
    assert (spread < 0.016).all()
    assert (spread > 0.002).any()
    assert torch.equal(b.hazy, loud.batch(0, Shard()).hazy)
    assert not torch.equal(b.hazy[0, 0], b.hazy[0, 1])


def test_pairs_match_the_reference(device: str) -> None:
    ours, plain = (make(device, STILL, kernel=kernel, batch=4, outputs=2).batch(0, Shard()) for kernel in (True, False))
    torch.testing.assert_close(ours.clear, plain.clear, atol=1e-4, rtol=0)
    assert (plain.clear[0] - plain.clear[1]).abs().mean() > 0.003
