# mypy: disable-error-code="no-untyped-def"
"""Haze over windows of clear images in one pass: the fused form of `reference.haze_windows`."""

from dataclasses import make_dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from libranet.haze.images import SKY_LEVEL
from libranet.haze.parameters import CELLS, HazeParameters

LAYOUT = {
    "view": {"centre": 2, "half_size": 2, "mirror": 1, "pan": 2, "zoom": 1, "parallax": 1, "used_width": 1},
    "distance": {"near": 1, "gamma": 1, "prior_share": 1, "horizon": 1, "ramp_power": 1, "relief_share": 1},
    "scattering": {"beta": 3, "residual_beta": 3, "min_transmission": 1, "darkening": 1, "opaque": 1},
    "airlight": {"colour": 3, "slope": 2, "gamma": 1},
    "camera": {"white_balance": 3, "tone": 1, "saturation": 1, "black_level": 1, "noise": 1},
    "sky": {"gain": 3, "fog": 1, "stretch": 1, "donor_width": 1},
}
"""Numbers of each parameter, by group, in the order of a sample's row: packing and kernel both go by it."""
FIELDS = {"distance": {"relief": 1}, "scattering": {"patches": 1}, "camera": {"shading": 3}}
"""Channels of the smooth fields, which follow in the row with CELLS x CELLS numbers each."""
ENTRIES = [(group, name, width) for group, widths in LAYOUT.items() for name, width in widths.items()]
ENTRIES += [(group, name, n * CELLS**2) for group, channels in FIELDS.items() for name, n in channels.items()]
ROW = sum(width for _, _, width in ENTRIES)  # numbers per sample
Offsets = make_dataclass("Offsets", [(f"{group}_{name}", int) for group, name, _ in ENTRIES], frozen=True)
"""Where each parameter begins in a row: the kernel reads `row + AT.camera_tone`."""
OFFSETS = Offsets(*(sum(width for _, _, width in ENTRIES[:index]) for index in range(len(ENTRIES))))


def _pack(parameters: HazeParameters) -> Tensor:  # [B, ROW] fp32
    b = len(parameters)
    entries = [getattr(getattr(parameters, group), name).reshape(b, -1) for group, name, _ in ENTRIES]
    assert [entry.shape[1] for entry in entries] == [width for _, _, width in ENTRIES]
    return torch.cat(entries, dim=1)


BLOCK = 256  # pixels per program


@triton.jit
def _bilinear(ptr, x, y, width, height, inside):
    """Read a map at pixel coordinates, which are clamped to its border."""
    x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
    y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
    left, top = x.to(tl.int32), y.to(tl.int32)
    share_x, share_y = x - left.to(tl.float32), y - top.to(tl.float32)
    right, bottom = tl.minimum(left + 1, width - 1), tl.minimum(top + 1, height - 1)
    a = tl.load(ptr + top * width + left, mask=inside, other=0).to(tl.float32)
    b = tl.load(ptr + top * width + right, mask=inside, other=0).to(tl.float32)
    c = tl.load(ptr + bottom * width + left, mask=inside, other=0).to(tl.float32)
    d = tl.load(ptr + bottom * width + right, mask=inside, other=0).to(tl.float32)
    upper, lower = a + (b - a) * share_x, c + (d - c) * share_x
    return upper + (lower - upper) * share_y


@triton.jit
def _power(value, exponent):
    """value ** exponent for values in [0, 1]."""
    return tl.exp2(tl.log2(tl.maximum(value, 1e-30)) * exponent)


@triton.jit
def _grade(
    value, channel: tl.constexpr, row, AT: tl.constexpr, CELLS: tl.constexpr, cell_x, cell_y, in_sky, inside
):  # fmt: skip
    """One channel, in bytes, as another camera would have stored it, under another sky, on a ground in other light."""
    balance, gain = tl.load(row + AT.camera_white_balance + channel), tl.load(row + AT.sky_gain + channel)
    value = _power(tl.minimum(value / 255.0 * balance, 1.0), tl.load(row + AT.camera_tone))
    shading = _bilinear(row + AT.camera_shading + channel * CELLS * CELLS, cell_x, cell_y, CELLS, CELLS, inside)
    return tl.minimum(value * (1.0 + in_sky * (gain - 1.0)) * (1.0 + (1.0 - in_sky) * shading), 1.0)


@triton.jit
def _colour(value, grey, channel: tl.constexpr, row, AT: tl.constexpr, in_sky, slope, grain, distance, optical):
    """One channel: hazy as a camera stores it, and the target."""
    black, gamma = tl.load(row + AT.camera_black_level), tl.load(row + AT.airlight_gamma)
    value = (grey + (value - grey) * tl.load(row + AT.camera_saturation)) * (1.0 - black) + black
    value = tl.minimum(tl.maximum(value, 0.0), 1.0)
    light = tl.minimum(tl.maximum(tl.load(row + AT.airlight_colour + channel) * (1.0 + slope), 0.0), 1.0)
    value = _power(value + (light - value) * in_sky * tl.load(row + AT.sky_fog), gamma)
    light = _power(light, gamma)
    residual, beta = tl.load(row + AT.scattering_residual_beta + channel), tl.load(row + AT.scattering_beta + channel)
    target = light + (value - light) * tl.exp(-residual * distance)
    transmission = tl.maximum(tl.exp(-beta * optical), tl.load(row + AT.scattering_min_transmission))
    scene = _power(target, 1.0 + (tl.load(row + AT.scattering_darkening) - 1.0) * (1.0 - in_sky))
    hazy = light + (scene - light) * transmission
    opaque = tl.maximum(tl.load(row + AT.scattering_opaque), 1e-6)
    target = light + (target - light) * tl.minimum(transmission / opaque, 1.0)
    hazy = _power(tl.minimum(tl.maximum(hazy, 0.0), 1.0), 1.0 / gamma)
    hazy = tl.minimum(tl.maximum(hazy + grain * tl.load(row + AT.camera_noise), 0.0), 1.0)
    return tl.floor(hazy * 255.0 + 0.5) / 255.0, _power(target, 1.0 / gamma)


@triton.jit(do_not_specialize=["seed", "height", "width", "lines", "columns", "depth_lines", "depth_columns"])
def _haze_kernel(
    images_ptr,  # [N, 3, lines, columns] uint8
    depth_ptr,  # [N, 1, depth_lines, depth_columns] uint8
    index_ptr, donor_ptr,  # [B] int64
    parameters_ptr,  # [B, ROW] fp32
    hazy_ptr,  # [B, T, 3, h, w] fp32
    clear_ptr,  # [B, K, 3, h, w] fp32, of the frames from FIRST on
    seed, height, width, lines, columns, depth_lines, depth_columns,
    AT: tl.constexpr, ROW: tl.constexpr, CELLS: tl.constexpr, SKY: tl.constexpr, T: tl.constexpr,
    FIRST: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    t, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixels = height * width
    inside = pixel < pixels
    row = parameters_ptr + b * ROW
    base_x = (((pixel % width) * 2.0 + 1.0) / width - 1.0) * tl.load(row + AT.view_mirror)
    base_y = ((pixel // width) * 2.0 + 1.0) / height - 1.0
    centre_x, centre_y = tl.load(row + AT.view_centre), tl.load(row + AT.view_centre + 1)
    half_x, half_y = tl.load(row + AT.view_half_size), tl.load(row + AT.view_half_size + 1)
    pan_x, pan_y = tl.load(row + AT.view_pan), tl.load(row + AT.view_pan + 1)
    zoom, parallax = tl.load(row + AT.view_zoom), tl.abs(tl.load(row + AT.view_parallax))

    number = tl.load(index_ptr + b)
    depth_ptr += number * depth_lines * depth_columns
    unmoved_x, unmoved_y = centre_x + half_x * base_x, centre_y + half_y * base_y
    nearness = 1.0 - _bilinear(
        depth_ptr, ((unmoved_x + 1.0) * depth_columns - 1.0) * 0.5, ((unmoved_y + 1.0) * depth_lines - 1.0) * 0.5,
        depth_columns, depth_lines, inside,
    ) / 255.0  # fmt: skip
    tau = (t - FIRST).to(tl.float32)
    scale = 1.0 + tau * zoom * 0.5
    sign_x = tl.where(pan_x > 0, 1.0, tl.where(pan_x < 0, -1.0, 0.0))
    sign_y = tl.where(pan_y > 0, 1.0, tl.where(pan_y < 0, -1.0, 0.0))
    x = centre_x + half_x * (base_x * scale + tau * (pan_x + sign_x * nearness * parallax) * 2.0)
    y = centre_y + half_y * (base_y * scale + tau * (pan_y + sign_y * nearness * parallax) * 2.0)
    x = tl.minimum(tl.maximum(tl.minimum(x, 2.0 * tl.load(row + AT.view_used_width) - 1.0), -1.0), 1.0)
    y = tl.minimum(tl.maximum(y, -1.0), 1.0)

    image_ptr = images_ptr + number * 3 * lines * columns
    image_x, image_y = ((x + 1.0) * columns - 1.0) * 0.5, ((y + 1.0) * lines - 1.0) * 0.5
    plane = lines * columns
    red = _bilinear(image_ptr, image_x, image_y, columns, lines, inside)
    green = _bilinear(image_ptr + plane, image_x, image_y, columns, lines, inside)
    blue = _bilinear(image_ptr + 2 * plane, image_x, image_y, columns, lines, inside)
    depth = _bilinear(
        depth_ptr, ((x + 1.0) * depth_columns - 1.0) * 0.5, ((y + 1.0) * depth_lines - 1.0) * 0.5,
        depth_columns, depth_lines, inside,
    ) / 255.0  # fmt: skip
    in_sky = tl.minimum(tl.maximum((depth * 255.0 - SKY) * 0.25, 0.0), 1.0)
    stretch = tl.load(row + AT.sky_stretch)
    if stretch > 0.0:
        sky_ptr = images_ptr + tl.load(donor_ptr + b) * 3 * lines * columns
        sky_x = ((tl.minimum(x, 2.0 * tl.load(row + AT.sky_donor_width) - 1.0) + 1.0) * columns - 1.0) * 0.5
        sky_y = ((y + 1.0) * stretch * lines - 1.0) * 0.5
        red += (_bilinear(sky_ptr, sky_x, sky_y, columns, lines, inside) - red) * in_sky
        green += (_bilinear(sky_ptr + plane, sky_x, sky_y, columns, lines, inside) - green) * in_sky
        blue += (_bilinear(sky_ptr + 2 * plane, sky_x, sky_y, columns, lines, inside) - blue) * in_sky

    cell_x, cell_y = (x + 1.0) * 0.5 * (CELLS - 1), (y + 1.0) * 0.5 * (CELLS - 1)
    red = _grade(red, 0, row, AT, CELLS, cell_x, cell_y, in_sky, inside)
    green = _grade(green, 1, row, AT, CELLS, cell_x, cell_y, in_sky, inside)
    blue = _grade(blue, 2, row, AT, CELLS, cell_x, cell_y, in_sky, inside)

    relief = _bilinear(row + AT.distance_relief, cell_x, cell_y, CELLS, CELLS, inside)
    horizon, near = tl.load(row + AT.distance_horizon), tl.load(row + AT.distance_near)
    fall = tl.minimum(tl.maximum(((y + 1.0) * 0.5 - horizon) / (1.0 - horizon), 0.0), 1.0)
    ramp = 1.0 - _power(fall, tl.load(row + AT.distance_ramp_power))
    prior = ramp + (relief - ramp) * tl.load(row + AT.distance_relief_share)
    distance = depth + (prior - depth) * tl.load(row + AT.distance_prior_share) * (1.0 - in_sky)
    distance = _power(tl.minimum(tl.maximum(distance, 1e-4), 1.0), tl.load(row + AT.distance_gamma))
    patches = _bilinear(row + AT.scattering_patches, cell_x, cell_y, CELLS, CELLS, inside)
    optical = (near + (1.0 - near) * distance) * (1.0 + patches)
    slope = x * tl.load(row + AT.airlight_slope) + y * tl.load(row + AT.airlight_slope + 1)

    place = ((b * T + t) * 3) * pixels + pixel
    grain_red = tl.zeros((BLOCK,), tl.float32)
    grain_green, grain_blue = grain_red, grain_red
    if tl.load(row + AT.camera_noise) > 0.0:
        grain_red, grain_green, grain_blue, _ = tl.randn4x(seed, ((b * T + t) * pixels + pixel).to(tl.int32))
    grey = (red + green + blue) / 3.0
    hazy, target_red = _colour(red, grey, 0, row, AT, in_sky, slope, grain_red, distance, optical)
    tl.store(hazy_ptr + place, hazy, mask=inside)
    hazy, target_green = _colour(green, grey, 1, row, AT, in_sky, slope, grain_green, distance, optical)
    tl.store(hazy_ptr + place + pixels, hazy, mask=inside)
    hazy, target_blue = _colour(blue, grey, 2, row, AT, in_sky, slope, grain_blue, distance, optical)
    tl.store(hazy_ptr + place + 2 * pixels, hazy, mask=inside)
    if (t >= FIRST) & (t < FIRST + K):
        place = ((b * K + t - FIRST) * 3) * pixels + pixel
        tl.store(clear_ptr + place, target_red, mask=inside)
        tl.store(clear_ptr + place + pixels, target_green, mask=inside)
        tl.store(clear_ptr + place + 2 * pixels, target_blue, mask=inside)


def haze_windows(
    images: Tensor,  # [N, 3, lines, columns] uint8
    depths: Tensor,  # [N, 1, depth lines, depth columns] uint8, 0 near, 255 far
    parameters: HazeParameters,
    size: tuple[int, int],  # height and width of the crops
    *,
    window: int,
    outputs: int = 1,
    seed: int,
) -> tuple[Tensor, Tensor]:  # [B, window + outputs - 1, 3, h, w] hazy, [B, outputs, 3, h, w] clear, in [0, 1]
    """Compute what `reference.haze_windows` does; the noise comes from another generator."""
    b, (height, width), device = len(parameters), size, images.device
    frames = window + outputs - 1
    hazy = torch.empty(b, frames, 3, height, width, device=device)
    clear = torch.empty(b, outputs, 3, height, width, device=device)
    _haze_kernel[(triton.cdiv(height * width, BLOCK), frames, b)](
        images, depths, parameters.view.image.to(device), parameters.sky.donor.to(device),
        _pack(parameters).to(device), hazy, clear,
        seed % 2**31, height, width, *images.shape[2:], *depths.shape[2:],
        AT=OFFSETS, ROW=ROW, CELLS=CELLS, SKY=SKY_LEVEL, T=frames, FIRST=window // 2, K=outputs, BLOCK=BLOCK,
    )  # fmt: skip
    return hazy, clear
