"""Builds the outdoor scene of a seed and renders its frames: colour, depth, and the exact flow between two of them.

Frames are traced in bands of rows, so that memory stays bounded at any size. Two rays go through each pixel: through
its centre, which gives depth, flow and half of the colour, and through its corner. A pixel's colour is half its centre
and an eighth of each of its four corners.
"""

import dataclasses
import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.lab.scenes.biome import CameraPath, draw_biome, draw_path
from libranet.lab.scenes.ground_shading import GroundShader
from libranet.lab.scenes.light import Light, Shade, develop, draw_light, sky_radiance
from libranet.lab.scenes.object_shading import CrownShader, SolidShader
from libranet.lab.scenes.objects import Solids, Trees
from libranet.lab.scenes.rays import GROUND, SKY, Camera, Rays, windows_in_view
from libranet.lab.scenes.site import Site, fill_site
from libranet.lab.scenes.terrain import Profile, Terrain
from libranet.lab.scenes.textures import DetailTexture, shared_textures

_HOST = torch.device("cpu")
_PREVIEW = (48, 27)
_CANDIDATES = 4
_BAND_CPU = 1 << 17  # rays per sample set in one band: small enough for the cache
_BAND_GPU = 1 << 22
_METERED = 0.135  # log-mean of exposed radiance in an image of medium brightness


@dataclass(frozen=True)
class World:
    """Everything that rendering a scene needs, on one device."""

    terrain: Terrain
    solids: Solids
    trees: Trees
    light: Light
    texture: DetailTexture
    ground_shader: GroundShader
    solid_shader: SolidShader
    crown_shader: CrownShader
    path: CameraPath


@dataclass(frozen=True)
class View:
    """One rendered frame."""

    image: Tensor | None  # [3, H, W], None if only the geometry was asked for
    distance: Tensor  # [H, W], infinite in the sky
    surface: Tensor  # [H, W] int32
    camera: Camera
    time: float


class Tracer:
    """Finds what the rays of one camera meet."""

    def __init__(
        self, terrain: Terrain, solids: Solids, trees: Trees, camera: Camera, time: float, *, min_area: int = 0
    ) -> None:
        """Objects that cover fewer than `min_area` pixels are left out."""
        self.solids, self.trees, self.camera, self.time = solids, trees, camera, time
        self.profile = Profile(terrain, camera)
        self.visible_solids, self.visible_trees = (
            [(i, window) for i, window in windows_in_view(camera, corners) if window.area >= min_area]
            for corners in (solids.corners(time), trees.corners())
        )

    def trace(self, rows: tuple[int, int] | None = None, *, corners: bool = False) -> Rays:
        """Trace a band of rows (default: all); see `Rays.through_pixels` for the samples."""
        rays = Rays.through_pixels(self.camera, self.solids.device, rows, corners=corners)
        rays.distance = self.profile.intersect(rays.direction)
        rays.surface = torch.where(torch.isfinite(rays.distance), GROUND, SKY).to(torch.int32)
        first, last = rows or (0, self.camera.height)
        for i, window in self.visible_solids:
            if (part := window.within((first, last + 1))) is not None:
                self.solids.intersect(rays, i, part, self.time)
        for i, window in self.visible_trees:
            if (part := window.within((first, last + 1))) is not None:
                self.trees.intersect(rays, i, part, 1.0 / self.camera.focal)
        return rays


def build_world(seed: int, device: torch.device) -> World:
    """Build the scene of a seed. All random numbers are drawn on the host, so that every device gets the same scene."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
    biome = draw_biome(rng)
    host = Terrain(biome.relief, biome.road, generator)
    site = Site(rng, biome, host, draw_path(rng, biome, host))
    fill_site(site)
    first_crown = len(site.solids) + 1
    path = _choose_view(
        site.path,
        rng=rng,
        spread=biome.look_around,
        terrain=host,
        solids=Solids(site.solids, _HOST),
        trees=Trees(site.trees, _HOST, shared_textures(_HOST)[1], first_crown),
    )
    light = draw_light(rng, path.yaw)
    terrain, solids = host.to(device), Solids(site.solids, device)
    texture, leaves = shared_textures(device)
    trees = Trees(site.trees, device, leaves, first_crown)
    forward = 0.72 * biome.shadow_reach
    centre = (
        path.start[0] + math.sin(path.yaw) * forward,
        host.level(path.start[0], path.start[2] + forward),
        path.start[2] + math.cos(path.yaw) * forward,
    )
    shade = Shade(light, solids, trees, centre, biome.shadow_reach)
    return World(
        terrain=terrain,
        solids=solids,
        trees=trees,
        light=light,
        texture=texture,
        ground_shader=GroundShader(biome.palette, terrain, light, shade, texture, leaves),
        solid_shader=SolidShader(solids, light, shade, texture),
        crown_shader=CrownShader(trees, shade),
        path=path,
    )


def _choose_view(
    path: CameraPath,
    *,
    rng: random.Random,
    spread: float,  # how far the camera may turn away, radians
    terrain: Terrain,
    solids: Solids,
    trees: Trees,
) -> CameraPath:
    """The best of a few variations of yaw and pitch, judged by small depth maps along the way (on the host).

    A good view has a horizon, things near and far, and no wall in front of the lens.
    """
    variations, outlines = [path], trees.outlines()
    for i in range(_CANDIDATES - 1):
        turn = rng.gauss(0, 0.12 if path.road is not None else spread * (1 + i))
        tilt = rng.gauss(0, 0.06)
        variations.append(dataclasses.replace(path, yaw=path.yaw + turn, pitch=path.pitch + tilt))
    return max(variations, key=lambda p: _score(p, terrain, solids, outlines))


def _score(path: CameraPath, terrain: Terrain, solids: Solids, trees: Trees) -> float:
    worst = math.inf
    for time in (0.0, 4.0):
        rays = Tracer(terrain, solids, trees, path.at(time, *_PREVIEW), time, min_area=16).trace()
        distance, surface = rays.distance[0, :-1, :-1], rays.surface[0, :-1, :-1]
        depth = distance.clamp(1.0, 3000.0).log()
        sky = float((surface == SKY).float().mean())
        blocked = float((distance < 4.0).float().mean())
        crowded = float((distance < 9.0).float().mean())
        spread = float(torch.quantile(depth.flatten(), 0.9) - torch.quantile(depth.flatten(), 0.1))
        score = (
            spread
            - 6.0 * max(0.0, blocked - 0.12)
            - 4.0 * max(0.0, sky - 0.6)
            - 4.0 * max(0.0, crowded - 0.45)
            - 3.0 * max(0.0, 0.08 - sky)
        )
        worst = min(worst, score)
    return worst


def exposed(world: World) -> World:
    """The world with its exposure corrected, in part, for what the camera sees at the start: a light meter."""
    camera = world.path.at(0.0, 64, 36)
    radiance = _radiance(world, camera, 0.0, _tracer(world, camera, 0.0).trace())
    grey = 0.2126 * radiance[0] + 0.7152 * radiance[1] + 0.0722 * radiance[2]
    tone = world.light.tone
    level = float(grey.clamp(min=1e-3, max=2.0).log().mean().exp()) * tone.exposure
    tone = dataclasses.replace(tone, exposure=tone.exposure * (_METERED / level) ** 0.55)
    return dataclasses.replace(world, light=dataclasses.replace(world.light, tone=tone))


def render_view(world: World, camera: Camera, time: float, *, colour: bool) -> View:
    """Render a frame; `colour=False` leaves the shading out."""
    tracer = _tracer(world, camera, time)
    area = _BAND_CPU if world.solids.device.type == "cpu" else _BAND_GPU
    rows = max(1, min(camera.height, area // (camera.width + 1)))
    images, distances, surfaces = [], [], []
    for top in range(0, camera.height, rows):
        bottom = min(top + rows, camera.height)
        rays = tracer.trace((top, bottom), corners=colour)
        distances.append(rays.distance[0, : bottom - top, : camera.width].clone())
        surfaces.append(rays.surface[0, : bottom - top, : camera.width].clone())
        if colour:
            shaded = develop(_radiance(world, camera, time, rays), world.light.tone)
            centre, corner = shaded[:, 0, :-1, :-1], shaded[:, 1]
            around = corner[:, :-1, :-1] + corner[:, 1:, :-1] + corner[:, :-1, 1:] + corner[:, 1:, 1:]
            images.append(0.5 * centre + 0.125 * around)
    image = torch.cat(images, dim=1).clamp(0, 1) if colour else None
    return View(image, torch.cat(distances), torch.cat(surfaces), camera, time)


def _tracer(world: World, camera: Camera, time: float) -> Tracer:
    return Tracer(world.terrain, world.solids, world.trees, camera, time)


def _radiance(world: World, camera: Camera, time: float, rays: Rays) -> Tensor:  # [3, S, h, w]
    directions = rays.direction.reshape(3, -1)
    distance, surface = rays.distance.reshape(-1), rays.surface.reshape(-1)
    out = torch.empty_like(directions)
    pixel = 1.0 / camera.focal
    origin = torch.tensor(camera.position, device=directions.device).reshape(3, 1)
    air = torch.tensor(world.light.horizon, device=directions.device).reshape(3, 1)
    first_crown = world.trees.first
    moving = (world.solids.items[i] for i in world.solids.moving)
    cars = [(*solid.place(time), solid.half_x, solid.half_z) for solid in moving if solid.height < 1.2]

    def ground(at: Tensor, points: Tensor, d: Tensor, t: Tensor) -> Tensor:
        return world.ground_shader.radiance(points, d, t, pixel, cars)

    def solid(at: Tensor, points: Tensor, d: Tensor, t: Tensor) -> Tensor:
        return world.solid_shader.radiance(points, d, t * pixel, surface[at].long() - 1, time)

    def crown(at: Tensor, points: Tensor, d: Tensor, t: Tensor) -> Tensor:
        return world.crown_shader.radiance(points, t, surface[at].long() - first_crown, pixel)

    at = (surface == SKY).nonzero()[:, 0]
    if at.numel():
        out[:, at] = sky_radiance(directions[:, at], world.light, world.texture, pixel)
    for mask, shader in (
        (surface == GROUND, ground),
        ((surface > GROUND) & (surface < first_crown), solid),
        (surface >= first_crown, crown),
    ):
        at = mask.nonzero()[:, 0]
        if at.numel():
            d, t = directions[:, at], distance[at]
            value = shader(at, origin + d * t, d, t)
            veil = 1 - torch.exp(-t / 90_000.0)  # what clear air adds
            out[:, at] = value + (air - value) * veil
    return out.reshape(3, *rays.distance.shape)


def flow_between(world: World, view: View, following: View) -> tuple[Tensor, Tensor]:
    """Exact forward flow between two views.

    Returns:
        Flow [2, H, W] in pixels from `view` to `following`, and [H, W] True where a point is hidden or outside there.
    """
    camera, then = view.camera, following.camera
    device = view.distance.device
    x = torch.arange(camera.width, device=device, dtype=torch.float32) + 0.5
    y = torch.arange(camera.height, device=device, dtype=torch.float32)[:, None] + 0.5
    moved = torch.tensor([b - a for a, b in zip(camera.position, then.position, strict=True)], device=device)
    flows, hidden = [], []
    rows = max(1, _BAND_GPU // camera.width)
    for top in range(0, camera.height, rows):
        band = slice(top, min(top + rows, camera.height))
        px, py = x + 0 * y[band], y[band] + 0 * x
        directions = camera.directions(px, py)
        sky = view.surface[band] == SKY
        distance = torch.where(sky, 1.0, view.distance[band])
        offsets = directions * distance - torch.where(sky, 0.0, moved.reshape(3, 1, 1))
        if world.solids.moving:
            number = (view.surface[band] - 1).long()
            solid = (number >= 0) & (number < len(world.solids.items))
            speed = world.solids.velocity[:, number.clamp(0, len(world.solids.items) - 1)] * solid
            step = speed * (following.time - view.time)
            offsets = offsets + torch.stack([step[0], torch.zeros_like(step[0]), step[1]])
        tx, ty, forward = then.project(offsets)
        flows.append(torch.stack([tx - px, ty - py]))
        expected = torch.where(sky, torch.inf, offsets.norm(dim=0))
        hidden.append(_hidden(torch.stack([tx, ty, forward]), expected, view.surface[band], following))
    return torch.cat(flows, dim=1), torch.cat(hidden)


def _hidden(
    target: Tensor,  # [3, h, w] image x, y and forward distance in the following view
    expected: Tensor,  # [h, w] distance there
    surface: Tensor,  # [h, w] what the point belongs to
    following: View,
) -> Tensor:  # [h, w] bool
    """A visible point lies within the distances of the four pixels around it; the nearest of them shows its surface."""
    x, y, forward = target
    height, width = following.distance.shape
    outside = (forward <= 1e-3) | (x < 0.5) | (y < 0.5) | (x > width - 0.5) | (y > height - 0.5)
    x, y = (x - 0.5).nan_to_num(0).clamp(0, width - 1.001), (y - 0.5).nan_to_num(0).clamp(0, height - 1.001)
    start = y.long() * width + x.long()
    table = following.distance.reshape(-1)
    around = torch.stack([table[start + k] for k in (0, 1, width, width + 1)])
    nearest, farthest = around.amin(dim=0), around.amax(dim=0)
    beyond = (expected > farthest * 1.01 + 0.05) | (expected < nearest * 0.98 - 0.05)
    pixel = y.round().long() * width + x.round().long()
    there = table[pixel]
    other = (following.surface.reshape(-1)[pixel] != surface) & ~(
        (there > 0.9 * expected - 0.3) & (there < 1.1 * expected + 0.3)
    )
    return outside | beyond | other
