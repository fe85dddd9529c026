"""Trees, bushes and rocks, where they grow in a biome."""

import math

from libranet.scenes.site import Site
from libranet.scenes.solids import Colour
from libranet.scenes.trees import boulder, broadleaf, bush, conifer

_SPRUCE: Colour = (0.036, 0.060, 0.030)


def plant(site: Site) -> None:
    """Everything that grows or lies about."""
    _trees(site)
    _boulders(site)
    _bushes(site)


def _trees(site: Site) -> None:
    rng, biome, road = site.rng, site.biome, site.biome.road
    edge = road.half_width + road.walk
    gap = edge + (0.8 if road.walk else 2.2) if road.half_width else 3.0
    reach = {"forest": 44.0, "city": 120.0}.get(biome.kind, 70.0)
    dense = biome.kind == "forest"
    for _ in range(biome.trees * 2):
        if len(site.trees) >= biome.trees:
            return
        z = 330.0 * rng.random() ** (1.6 if dense else 1.25) - 8
        out = road.half_width + road.walk * 0.5 if biome.kind == "street" else gap + reach * rng.random() ** 1.5
        x = road.centre(z) + rng.choice([-1, 1]) * out
        height = rng.uniform(5, 9) if road.walk else rng.uniform(6, 17)
        if not site.free(x, z, height * (0.16 if dense else 0.2)):
            continue
        spot, far = (x, site.terrain.level(x, z), z), math.hypot(x - site.path.start[0], z)
        if rng.random() < biome.conifers:
            tree, trunk = conifer(
                rng, spot, height * 1.2, _toned(_SPRUCE, rng.uniform(0.8, 1.2)), 18 if far < 70 else 9
            )
        else:
            colour = _toned(rng.choice(biome.leaves), rng.uniform(0.8, 1.2))
            tree, trunk = broadleaf(rng, spot, height, colour, 12 if far < 60 else 7)
        site.trees.append(tree)
        if far < 150:
            site.solids.append(trunk)
        site.taken.append((x, z, height * 0.12))


def _bushes(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    for _ in range(site.biome.bushes):
        z = 170.0 * rng.random() ** 1.4
        out = road.half_width + road.walk + 1.5 + 45 * rng.random() ** 1.5
        x, size = road.centre(z) + rng.choice([-1, 1]) * out, rng.uniform(0.5, 1.6)
        if site.free(x, z, size):
            site.trees.append(bush(rng, (x, site.terrain.level(x, z), z), size, rng.choice(site.biome.leaves)))


def _boulders(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    if site.biome.kind not in ("mountain", "dry", "coast"):
        return
    for _ in range(rng.randint(5, 45)):
        z = 150.0 * rng.random() ** 1.3
        x = road.centre(z) + rng.choice([-1, 1]) * (road.half_width + 2.0 + 50 * rng.random() ** 1.4)
        size = 0.4 * rng.lognormvariate(0.3, 0.6)
        if site.free(x, z, size):
            colour = _toned(site.biome.palette.rock, rng.uniform(0.7, 1.2))
            site.trees.append(boulder(rng, (x, site.terrain.level(x, z), z), size, colour))


def _toned(colour: Colour, tone: float) -> Colour:
    return (colour[0] * tone, colour[1] * tone, colour[2] * tone)
