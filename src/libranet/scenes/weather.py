"""Draws the light of a clip: time of day, cloud cover, and how the camera is set."""

import math
import random

from libranet.scenes.light import Light
from libranet.scenes.solids import Colour


def draw_light(rng: random.Random, heading: float) -> Light:
    """A clear-weather light; `heading` is where the camera looks, so that the sun is seldom in the picture."""
    clouds = rng.choice([0.0, rng.uniform(0.1, 0.4), rng.uniform(0.25, 0.55), rng.uniform(0.5, 0.8), 1.0])
    elevation = math.radians(rng.choice([rng.uniform(9, 22), rng.uniform(20, 45), rng.uniform(35, 65)]))
    azimuth = heading + rng.choice([-1, 1]) * math.radians(rng.triangular(25, 180, 110))
    overcast = clouds > 0.85
    low = math.exp(-math.degrees(elevation) / 11.0)  # 0 at noon, near 0.4 when the sun is low
    sun_colour = (1.0, 0.93 - 0.38 * low, 0.82 - 0.72 * low)
    strength = 0.0 if overcast else (2.6 - 1.1 * low) * (1 - 0.35 * max(0.0, clouds - 0.4))
    blue = rng.uniform(0.75, 1.1)
    if overcast:
        level = rng.uniform(0.85, 1.1)
        zenith = _scale((0.74, 0.80, 0.88), level * 0.85)
        horizon = _scale((0.90, 0.93, 0.97), level * 0.85)
        sky = _scale((0.92, 0.97, 1.04), level)
    else:
        zenith = _scale((0.10, 0.26, 0.70), blue * (1 - 0.3 * low))
        horizon = _blend(_scale((0.50, 0.70, 0.98), rng.uniform(0.8, 1.05)), (1.0, 0.66, 0.38), 1.2 * low)
        sky = _blend(_scale((0.42, 0.55, 0.80), 0.85), (0.8, 0.82, 0.86), 0.7 * clouds)
    total = strength * math.sin(elevation) * 0.85 + sum(sky) / 3
    bounce = _scale((0.16, 0.15, 0.12), total)
    # A camera takes most, not all, of the light's colour out.
    mix = [sun_colour[i] * strength * math.sin(elevation) + sky[i] for i in range(3)]
    red, green, blue_ = ((mix[1] / m) ** 0.6 for m in mix)
    warm = rng.gauss(-0.03, 0.05)
    return Light(
        towards_sun=(
            math.cos(elevation) * math.sin(azimuth),
            math.sin(elevation),
            math.cos(elevation) * math.cos(azimuth),
        ),
        sun=_scale(sun_colour, strength),
        sky=sky,
        bounce=bounce,
        exposure=0.88 / total**0.85 * 2 ** rng.gauss(0.0, 0.3),
        white_balance=(red * (1.0 + warm), green, blue_ * (1.0 - warm)),
        saturation=rng.uniform(0.9, 1.35),
        contrast=rng.uniform(0.98, 1.2),
        zenith=zenith,
        horizon=horizon,
        clouds=clouds,
        cloud_scale=rng.uniform(0.6, 1.3),
        cloud_shift=(rng.uniform(0, 9), rng.uniform(0, 9)),
    )


def _scale(colour: Colour, factor: float) -> Colour:
    return (colour[0] * factor, colour[1] * factor, colour[2] * factor)


def _blend(a: Colour, b: Colour, share: float) -> Colour:
    share = min(max(share, 0.0), 1.0)
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share)
