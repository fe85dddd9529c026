import dataclasses

import pytest
import torch

from libranet.errors import InputError
from libranet.kernels.resample.reference import downsample, upsample
from libranet.network import LiBrANet, LiBrANetConfig
from tiny_network import TINY, make_config, perturb

VARIANTS = {
    "full": {},
    "without chromatic field": {"chromatic_field": False},
    "without temporal field": {"temporal_field": False},
    "without cayley": {"cayley": False},
    "without adaptive slicing": {"adaptive_slicing": False},
}


def tiny(**changes) -> LiBrANetConfig:
    return make_config(TINY, **changes)


def window(*size: int, t: int = 5, batch: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, t, 3, *size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [(64, 96), (33, 47)])
def test_at_initialisation_the_output_is_the_centre_frame_exactly(name, size):
    frames = window(*size)
    frames[:, 2, :, :8, :8] = 1.0  # the ends of the range, where rounding would show
    frames[:, 2, :, 8:16, :8] = 0.0
    model = LiBrANet(tiny(**VARIANTS[name])).eval()
    assert torch.equal(model(frames), frames[:, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_network_starts_as_the_identity_in_every_precision(dtype):
    frames = window(32, 48)
    # Half precision convolutions are very slow on CPUs, so the whole network is checked in float32 alone.
    model = LiBrANet(None if dtype == torch.float32 else TINY).to(dtype).eval()
    assert torch.equal(model(frames), frames[:, 2])
    half = frames.to(dtype)
    assert torch.equal(model(half), half[:, 2])


def test_without_refiner_the_output_is_the_small_frame_enlarged():
    frames = window(32, 48)
    model = LiBrANet(tiny(refiner=False)).eval()
    expected = upsample(downsample(frames[:, 2], (8, 12)), (32, 48))
    torch.testing.assert_close(model(frames), expected)


@pytest.mark.parametrize("name", VARIANTS)
def test_each_variant_does_something_once_it_has_weights(name):
    torch.manual_seed(0)
    model = perturb(LiBrANet(tiny(**VARIANTS[name])))
    frames = window(32, 48)
    out = model(frames)
    assert out.shape == (1, 3, 32, 48)
    assert (out - frames[:, 2]).abs().mean() > 1e-3
    assert out.min() >= 0
    assert out.max() <= 1


def test_variants_differ_from_the_full_network():
    frames, outputs = window(48, 48), {}
    for name, changes in VARIANTS.items():
        torch.manual_seed(0)
        outputs[name] = perturb(LiBrANet(tiny(**changes)), scale=0.3)(frames)
    for name, out in outputs.items():
        if name != "full":
            assert (out - outputs["full"]).abs().max() > 1e-3, name


@pytest.mark.parametrize("t", [1, 3, 5, 7])
def test_every_odd_window_works(t):
    torch.manual_seed(0)
    model = perturb(LiBrANet(tiny(window=t)))
    out = model(window(24, 32, t=t))
    assert out.shape == (1, 3, 24, 32)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("size", [(16, 16), (17, 19), (16, 301), (61, 16), (135, 241)])
def test_any_size_from_sixteen_up(tiny_model, size):
    out = tiny_model(window(*size))
    assert out.shape == (1, 3, *size)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.03), (torch.float16, 0.004)])
def test_half_precision_stays_close_to_float32(tiny_model, dtype, tolerance):
    frames = window(40, 56)
    expected = tiny_model(frames)
    found = tiny_model.to(dtype)(frames)
    assert found.dtype == torch.float32  # the frames' own precision is kept
    assert (found - expected).abs().max() < tolerance


def test_centre_row_alone_equals_the_centre_of_all_rows(tiny_model):
    frames = window(32, 32, batch=2)
    everything = tiny_model.predict_grids(frames).temporal
    centre = tiny_model.predict_grids(frames, centre_only=True).temporal
    assert everything.shape[2] == 5
    assert centre.shape[2] == 1
    torch.testing.assert_close(centre[:, :, 0], everything[:, :, 2], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(tiny_model(frames), tiny_model.predict(frames).image, rtol=0, atol=1e-6)


def test_strength_zero_is_the_input_and_one_is_the_network(tiny_model):
    frames = window(33, 47)
    assert torch.equal(tiny_model(frames, strength=0.0), frames[:, 2])
    assert torch.equal(tiny_model(frames, strength=1.0), tiny_model(frames))
    change = [(tiny_model(frames, strength=s) - frames[:, 2]).abs().mean() for s in (0.5, 1.0, 1.5)]
    assert change[0] < change[1] < change[2]


def test_gradients_reach_every_parameter_after_one_step():
    torch.manual_seed(0)
    model = perturb(LiBrANet(TINY)).train()
    model.predict(window(32, 32)).image.square().mean().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert silent == []


def test_transmission_is_read_off_the_determinant():
    model = LiBrANet(TINY).eval()
    restoration = model.predict(window(32, 32))
    torch.testing.assert_close(restoration.transmission(), torch.ones(1, 1, 8, 8))
    gain = restoration.matrix * 2.0  # dehazing by 1 / t with t = 0.5
    found = dataclasses.replace(restoration, matrix=gain).transmission()
    torch.testing.assert_close(found, torch.full((1, 1, 8, 8), 0.5))


def test_singular_pixels_are_counted():
    model = LiBrANet(TINY).eval()
    with torch.no_grad():
        model.temporal.head.project.bias[0] = 2.0  # M = diag(2, 0, 0): I - M/2 is singular everywhere
    restoration = model.predict(window(32, 48))
    assert int(restoration.singular) == 8 * 12
    assert torch.isfinite(restoration.image).all()


BAD_WINDOWS = {
    "even T": (torch.rand(1, 4, 3, 32, 32), r"expected a window of T=5 frames, got T=4"),
    "four dimensions": (torch.rand(5, 3, 32, 32), r"expected frames as \[B, T, 3, H, W\], got shape \(5, 3, 32, 32\)"),
    "one channel": (torch.rand(1, 5, 1, 32, 32), r"expected 3 colour channels, got 1"),
    "alpha": (torch.rand(1, 5, 4, 32, 32), r"expected 3 colour channels, got 4"),
    "too small": (torch.rand(1, 5, 3, 15, 32), r"at least 16x16 pixels, got 32x15"),
    "bytes": (torch.zeros(1, 5, 3, 32, 32, dtype=torch.uint8), r"got torch\.uint8: divide by 255 first"),
}


@pytest.mark.parametrize("name", BAD_WINDOWS)
def test_bad_input_is_named_in_one_sentence(tiny_model, name):
    frames, message = BAD_WINDOWS[name]
    with pytest.raises(InputError, match=message):
        tiny_model(frames)


BAD_CONFIGS = {
    "window": (4, r"expected an odd window length of 1, 3, 5 or 7, got T=4"),
    "refiner_mix_kernel": (2, r"refiner.mix_kernel 1 or 3, got 2"),
    "encoder_size": (100, r"encoder.size a multiple of 16, got 100"),
    "refiner_width": (50, r"multiples of 8, got 50"),
    "attention_heads": (7, r"attention_heads to divide 192, got 7"),
    "dropout": (1.0, r"dropout in \[0, 1\), got 1.0"),
    "bins": (0, r"bins of at least 1, got 0"),
}


@pytest.mark.parametrize("field", BAD_CONFIGS)
def test_bad_configuration_is_named_in_one_sentence(field):
    value, message = BAD_CONFIGS[field]
    with pytest.raises(InputError, match=message):
        make_config(**{field: value})


def test_a_network_without_any_field_is_refused():
    with pytest.raises(InputError, match="at least one affine field"):
        make_config(chromatic_field=False, temporal_field=False)


def test_a_still_window_is_encoded_once_and_gives_the_same():
    model = perturb(LiBrANet(tiny()).eval())
    frame = torch.rand(2, 1, 3, 32, 48)
    encoded: list[int] = []
    model.temporal.encoder.register_forward_hook(lambda module, args, out: encoded.append(len(out)))
    assert torch.allclose(model(frame, still=True), model(frame.repeat(1, 5, 1, 1, 1)), atol=1e-6)
    assert encoded == [2, 10]
    with pytest.raises(InputError, match="expected a still window as T=1 frame, got T=5"):
        model(frame.repeat(1, 5, 1, 1, 1), still=True)
