# mypy: disable-error-code="no-untyped-def"
"""Camera motion, depth and haze over clear pictures in one pass: what `training.batches` computes step by step."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PARAMETERS = 46
"""Numbers per sample: centre 2, half size 2, motion 4, turn 4, used width; then in the order of `HazeDraw`, without its
three fields: beta 3, leftover 3, near, gamma, prior share, horizon, ramp power, relief share, floor, airlight 3,
light slope 2, noise, saturation, lift, balance 3, tone, sky 3; last the stretch of
the donor's sky, its used width, the window's delay, the fog in the sky, and the tone curve."""
BLOCK = 256
"""Pixels per program."""


@triton.jit
def _bilinear(ptr, x, y, width, height, inside):
    """Read a picture at pixel coordinates, which are clamped to its border."""
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
def _grade(value, balance, tone):
    """A byte's worth of light as another camera would have stored it."""
    return _power(tl.minimum(value / 255.0 * balance, 1.0), tone)


@triton.jit
def _light(value, in_sky, sky, shade):
    """One channel under another sky, on a ground in other light."""
    return tl.minimum(value * (1.0 + in_sky * (sky - 1.0)) * (1.0 + (1.0 - in_sky) * shade), 1.0)


@triton.jit
def _colour(
    value, grey, saturation, lift, airlight, slope, leftover, beta, floor, grain, fog, curve, distance, optical
):  # fmt: skip
    """One channel: hazy as a camera stores it, and the target."""
    value = tl.minimum(tl.maximum((grey + (value - grey) * saturation) * (1.0 - lift) + lift, 0.0), 1.0)
    light = tl.minimum(tl.maximum(airlight * (1.0 + slope), 0.0), 1.0)
    value = _power(value + (light - value) * fog, curve)
    light = _power(light, curve)
    target = light + (value - light) * tl.exp(-leftover * distance)
    hazy = light + (target - light) * tl.maximum(tl.exp(-beta * optical), floor)
    hazy = _power(tl.minimum(tl.maximum(hazy, 0.0), 1.0), 1.0 / curve)
    hazy = tl.minimum(tl.maximum(hazy + grain, 0.0), 1.0)
    return tl.floor(hazy * 255.0 + 0.5) / 255.0, _power(target, 1.0 / curve)


@triton.jit(do_not_specialize=["seed", "height", "width", "lines", "columns", "depth_lines", "depth_columns"])
def _haze_kernel(
    images_ptr,  # [N, 3, lines, columns] uint8
    depth_ptr,  # [N, 1, depth_lines, depth_columns] uint8
    index_ptr, donor_ptr,  # [B] int64
    parameters_ptr,  # [B, PARAMETERS] fp32
    relief_ptr, patches_ptr,  # [B, CELLS, CELLS] fp32
    shade_ptr,  # [B, 3, CELLS, CELLS] fp32
    hazy_ptr,  # [B, T, 3, h, w] fp32
    clear_ptr,  # [B, 3, h, w] fp32
    seed, height, width, lines, columns, depth_lines, depth_columns,
    SKY: tl.constexpr, T: tl.constexpr, CELLS: tl.constexpr, PARAMETERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    t, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixels = height * width
    inside = pixel < pixels
    v = parameters_ptr + b * PARAMETERS
    level_x = ((pixel % width) * 2.0 + 1.0) / width - 1.0
    level_y = ((pixel // width) * 2.0 + 1.0) / height - 1.0
    base_x = tl.load(v + 8) * level_x + tl.load(v + 9) * level_y
    base_y = tl.load(v + 10) * level_x + tl.load(v + 11) * level_y
    centre_x, centre_y, half_x, half_y = tl.load(v), tl.load(v + 1), tl.load(v + 2), tl.load(v + 3)
    pan_x, pan_y, zoom, parallax = tl.load(v + 4), tl.load(v + 5), tl.load(v + 6), tl.abs(tl.load(v + 7))

    number = tl.load(index_ptr + b)
    depth_ptr += number * depth_lines * depth_columns
    still_x, still_y = centre_x + half_x * base_x, centre_y + half_y * base_y
    nearness = 1.0 - _bilinear(
        depth_ptr, ((still_x + 1.0) * depth_columns - 1.0) * 0.5, ((still_y + 1.0) * depth_lines - 1.0) * 0.5,
        depth_columns, depth_lines, inside,
    ) / 255.0  # fmt: skip
    tau = (t - T // 2).to(tl.float32) + tl.load(v + 43)
    scale = 1.0 + tau * zoom * 0.5
    sign_x = tl.where(pan_x > 0, 1.0, tl.where(pan_x < 0, -1.0, 0.0))
    sign_y = tl.where(pan_y > 0, 1.0, tl.where(pan_y < 0, -1.0, 0.0))
    x = centre_x + half_x * (base_x * scale + tau * (pan_x + sign_x * nearness * parallax) * 2.0)
    y = centre_y + half_y * (base_y * scale + tau * (pan_y + sign_y * nearness * parallax) * 2.0)
    x = tl.minimum(tl.maximum(tl.minimum(x, 2.0 * tl.load(v + 12) - 1.0), -1.0), 1.0)
    y = tl.minimum(tl.maximum(y, -1.0), 1.0)

    image_ptr = images_ptr + number * 3 * lines * columns
    image_x, image_y = ((x + 1.0) * columns - 1.0) * 0.5, ((y + 1.0) * lines - 1.0) * 0.5
    plane, tone = lines * columns, tl.load(v + 37)
    red = _bilinear(image_ptr, image_x, image_y, columns, lines, inside)
    green = _bilinear(image_ptr + plane, image_x, image_y, columns, lines, inside)
    blue = _bilinear(image_ptr + 2 * plane, image_x, image_y, columns, lines, inside)
    depth = _bilinear(
        depth_ptr, ((x + 1.0) * depth_columns - 1.0) * 0.5, ((y + 1.0) * depth_lines - 1.0) * 0.5,
        depth_columns, depth_lines, inside,
    ) / 255.0  # fmt: skip
    in_sky = tl.minimum(tl.maximum((depth * 255.0 - SKY) * 0.25, 0.0), 1.0)
    stretch = tl.load(v + 41)
    if stretch > 0.0:
        sky_ptr = images_ptr + tl.load(donor_ptr + b) * 3 * lines * columns
        sky_x = ((tl.minimum(x, 2.0 * tl.load(v + 42) - 1.0) + 1.0) * columns - 1.0) * 0.5
        sky_y = ((y + 1.0) * stretch * lines - 1.0) * 0.5
        red += (_bilinear(sky_ptr, sky_x, sky_y, columns, lines, inside) - red) * in_sky
        green += (_bilinear(sky_ptr + plane, sky_x, sky_y, columns, lines, inside) - green) * in_sky
        blue += (_bilinear(sky_ptr + 2 * plane, sky_x, sky_y, columns, lines, inside) - blue) * in_sky
    red = _grade(red, tl.load(v + 34), tone)
    green = _grade(green, tl.load(v + 35), tone)
    blue = _grade(blue, tl.load(v + 36), tone)
    cell_x, cell_y = (x + 1.0) * 0.5 * (CELLS - 1), (y + 1.0) * 0.5 * (CELLS - 1)
    shade_ptr += b * 3 * CELLS * CELLS
    red = _light(red, in_sky, tl.load(v + 38), _bilinear(shade_ptr, cell_x, cell_y, CELLS, CELLS, inside))
    shade_ptr += CELLS * CELLS
    green = _light(green, in_sky, tl.load(v + 39), _bilinear(shade_ptr, cell_x, cell_y, CELLS, CELLS, inside))
    shade_ptr += CELLS * CELLS
    blue = _light(blue, in_sky, tl.load(v + 40), _bilinear(shade_ptr, cell_x, cell_y, CELLS, CELLS, inside))
    relief = _bilinear(relief_ptr + b * CELLS * CELLS, cell_x, cell_y, CELLS, CELLS, inside)
    patches = _bilinear(patches_ptr + b * CELLS * CELLS, cell_x, cell_y, CELLS, CELLS, inside)

    near, gamma, prior_share, horizon = tl.load(v + 19), tl.load(v + 20), tl.load(v + 21), tl.load(v + 22)
    fall = tl.minimum(tl.maximum(((y + 1.0) * 0.5 - horizon) / (1.0 - horizon), 0.0), 1.0)
    ramp = 1.0 - _power(fall, tl.load(v + 23))
    prior = ramp + (relief - ramp) * tl.load(v + 24)
    distance = tl.minimum(tl.maximum(depth + (prior - depth) * prior_share * (1.0 - in_sky), 1e-4), 1.0)
    distance = _power(distance, gamma)
    optical = (near + (1.0 - near) * distance) * (1.0 + patches)
    fog, curve = tl.load(v + 44) * in_sky, tl.load(v + 45)
    slope = x * tl.load(v + 29) + y * tl.load(v + 30)

    sigma, saturation, lift, floor = tl.load(v + 31), tl.load(v + 32), tl.load(v + 33), tl.load(v + 25)
    place = ((b * T + t) * 3) * pixels + pixel
    grain_red = tl.zeros((BLOCK,), tl.float32)
    grain_green, grain_blue = grain_red, grain_red
    if sigma > 0.0:
        grain_red, grain_green, grain_blue, _ = tl.randn4x(seed, ((b * T + t) * pixels + pixel).to(tl.int32))
    grey = (red + green + blue) / 3.0
    hazy, target_red = _colour(
        red, grey, saturation, lift, tl.load(v + 26), slope, tl.load(v + 16), tl.load(v + 13), floor,
        grain_red * sigma, fog, curve, distance, optical,
    )  # fmt: skip
    tl.store(hazy_ptr + place, hazy, mask=inside)
    hazy, target_green = _colour(
        green, grey, saturation, lift, tl.load(v + 27), slope, tl.load(v + 17), tl.load(v + 14), floor,
        grain_green * sigma, fog, curve, distance, optical,
    )  # fmt: skip
    tl.store(hazy_ptr + place + pixels, hazy, mask=inside)
    hazy, target_blue = _colour(
        blue, grey, saturation, lift, tl.load(v + 28), slope, tl.load(v + 18), tl.load(v + 15), floor,
        grain_blue * sigma, fog, curve, distance, optical,
    )  # fmt: skip
    tl.store(hazy_ptr + place + 2 * pixels, hazy, mask=inside)
    if t == T // 2:
        place = b * 3 * pixels + pixel
        tl.store(clear_ptr + place, target_red, mask=inside)
        tl.store(clear_ptr + place + pixels, target_green, mask=inside)
        tl.store(clear_ptr + place + 2 * pixels, target_blue, mask=inside)


def haze_window(
    images: Tensor,  # [N, 3, lines, columns] uint8
    depths: Tensor,  # [N, 1, depth lines, depth columns] uint8
    index: Tensor,  # [B] int64, which picture
    donor: Tensor,  # [B] int64, which picture the sky comes from, where the parameters say that it is stretched
    parameters: Tensor,  # [B, PARAMETERS] fp32
    fields: Tensor,  # [B, 5, cells, cells] fp32: relief, patches and the three channels of shade
    size: tuple[int, int],
    *,
    window: int,
    sky_level: int,
    seed: int,
) -> tuple[Tensor, Tensor]:  # [B, T, 3, h, w] hazy, [B, 3, h, w] clear
    """Look at pictures through a moving camera and haze. Depth beyond `sky_level` of 255 is sky."""
    b, (height, width) = len(index), size
    assert parameters.shape == (b, PARAMETERS)
    hazy = torch.empty(b, window, 3, height, width, device=images.device)
    clear = torch.empty(b, 3, height, width, device=images.device)
    relief, patches, shade = (part.contiguous() for part in fields.split([1, 1, 3], dim=1))
    _haze_kernel[(triton.cdiv(height * width, BLOCK), window, b)](
        images, depths, index, donor, parameters, relief, patches, shade, hazy, clear,
        seed % 2**31, height, width, *images.shape[2:], *depths.shape[2:],
        SKY=sky_level, T=window, CELLS=relief.shape[-1], PARAMETERS=PARAMETERS, BLOCK=BLOCK,
    )  # fmt: skip
    return hazy, clear
