import pytest
import torch

from libranet.errors import InputError
from libranet.network import LiBrANet, start_stream, stream_restore, stream_step
from tiny_network import TINY, make_config, perturb


def clip(n: int = 12, size: tuple[int, int] = (33, 47), seed: int = 0) -> torch.Tensor:  # [N, 3, H, W]
    return torch.rand(n, 3, *size, generator=torch.Generator().manual_seed(seed))


def by_windows(model: LiBrANet, frames: torch.Tensor, *, lookahead: int | None = None) -> list[torch.Tensor]:
    """The windowed network with the edge rule: indices are clamped to the clip, and to the frames seen so far."""
    n, radius = len(frames), model.config.window // 2
    ahead = radius if lookahead is None else lookahead
    outputs = []
    for i in range(n):
        newest = min(i + ahead, n - 1)
        indices = [min(max(i + step, 0), newest) for step in range(-radius, radius + 1)]
        with torch.no_grad():
            outputs.append(model(frames[indices][None])[0])
    return outputs


def by_stream(model: LiBrANet, frames: torch.Tensor, *, lookahead: int | None = None) -> list[torch.Tensor]:
    state, outputs = start_stream(model, lookahead=lookahead), []
    for frame in frames:
        out, state = stream_step(model, frame[None], state)
        outputs += [] if out is None else [out[0]]
    while state.waiting:
        out, state = stream_step(model, None, state)
        outputs.append(out[0])
    return outputs


@pytest.mark.parametrize("t", [1, 3, 5, 7])
def test_streaming_equals_windows_first_and_last_frames_included(t):
    torch.manual_seed(0)
    model = perturb(LiBrANet(make_config(TINY, window=t)))
    frames = clip()
    expected, found = by_windows(model, frames), by_stream(model, frames)
    assert len(found) == len(expected) == 12
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a - b).abs().max() <= 1e-5, i


def test_streaming_equals_windows_with_the_default_network():
    torch.manual_seed(0)
    model = perturb(LiBrANet(), scale=0.02)
    frames = clip(7, (24, 32))
    for a, b in zip(by_stream(model, frames), by_windows(model, frames), strict=True):
        assert (a - b).abs().max() <= 1e-5


@pytest.mark.parametrize("lookahead", [0, 1, 2])
def test_live_streams_repeat_their_newest_frame(tiny_model, lookahead):
    frames = clip(7)
    for a, b in zip(
        by_stream(tiny_model, frames, lookahead=lookahead),
        by_windows(tiny_model, frames, lookahead=lookahead),
        strict=True,
    ):
        assert (a - b).abs().max() <= 1e-5


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_short_clips(tiny_model, n):
    frames = clip(n)
    found = by_stream(tiny_model, frames)
    assert len(found) == n
    for a, b in zip(found, by_windows(tiny_model, frames), strict=True):
        assert (a - b).abs().max() <= 1e-5


def test_every_frame_is_encoded_once(tiny_model):
    encoded = []
    tiny_model.temporal.encoder.register_forward_hook(lambda *args: encoded.append("t"))
    tiny_model.chromatic.encoder.register_forward_hook(lambda *args: encoded.append("c"))
    by_stream(tiny_model, clip(9))
    assert encoded.count("t") == encoded.count("c") == 9


def test_the_state_does_not_grow(tiny_model):
    state, sizes = None, []
    for frame in clip(20):
        _, state = stream_step(tiny_model, frame[None], state)
        sizes.append((len(state.features), len(state.waiting)))
    assert max(features for features, _ in sizes) <= 5
    assert sizes[-1] == sizes[6] == (4, 2)


def test_the_ablation_variants_stream_too():
    for changes in ({"temporal_field": False}, {"chromatic_field": False}, {"refiner": False}):
        model = perturb(LiBrANet(make_config(TINY, **changes)))
        frames = clip(6)
        for a, b in zip(by_stream(model, frames), by_windows(model, frames), strict=True):
            assert (a - b).abs().max() <= 1e-5


def test_strength_reaches_the_stream(tiny_model):
    frames, state, outputs = clip(5), None, []
    for frame in frames:
        out, state = stream_step(tiny_model, frame[None], state, strength=0.0)
        outputs += [] if out is None else [out[0]]
    assert all(torch.equal(a, b) for a, b in zip(outputs, frames, strict=False))


def test_no_gradient_is_recorded(tiny_model):
    out, _ = stream_restore(tiny_model, clip(1), start_stream(tiny_model, lookahead=0))
    assert not out.image.requires_grad


@pytest.mark.parametrize("lookahead", [0, 2])
def test_a_size_that_changes_mid_stream_is_refused(tiny_model, lookahead):
    _, state = stream_step(tiny_model, clip(1), start_stream(tiny_model, lookahead=lookahead))
    with pytest.raises(InputError, match=r"one size, got 48x32 \(batch 1\) after 47x33 \(batch 1\)"):
        stream_step(tiny_model, clip(1, (32, 48)), state)


def test_a_drained_stream_takes_no_more_frames(tiny_model):
    _, state = stream_step(tiny_model, clip(1))
    _, state = stream_step(tiny_model, None, state)
    assert stream_step(tiny_model, None, state)[0] is None
    with pytest.raises(InputError, match="begin the next one with a new state"):
        stream_step(tiny_model, clip(1), state)


def test_bad_frames_are_named(tiny_model):
    with pytest.raises(InputError, match=r"expected a frame as \[B, 3, H, W\], got shape \(3, 32, 32\)"):
        stream_step(tiny_model, torch.rand(3, 32, 32))
    with pytest.raises(InputError, match="got NaN"):
        stream_step(tiny_model, torch.full((1, 3, 32, 32), float("nan")))
    with pytest.raises(InputError, match="look-ahead of 0 to 2 frames for T=5, got 3"):
        start_stream(tiny_model, lookahead=3)
