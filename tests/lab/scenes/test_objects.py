"""Cameras, rays against boxes and crowns, and textures, against closed forms."""

import math

import pytest
import torch

from libranet.lab.scenes.objects import Solid, Solids, Tree, Trees
from libranet.lab.scenes.rays import Camera, Rays, Window
from libranet.lab.scenes.textures import DetailTexture, SolidTexture, hash01, pulse, spectral_noise

CPU = torch.device("cpu")
CAMERA = Camera(position=(0.0, 1.5, 0.0), yaw=0.0, pitch=0.0, roll=0.0, view_angle=0.98, width=64, height=48)


def rays_towards(*directions: tuple[float, float, float]) -> Rays:
    d = torch.tensor(directions, dtype=torch.float32).T
    return Rays.start(torch.zeros(3, 1, 1, 1), (d / d.norm(dim=0)).reshape(3, 1, 1, -1), (0.0, 1.5, 0.0))


def test_camera_projects_its_own_rays_back() -> None:
    camera = Camera(position=(0, 0, 0), yaw=0.7, pitch=-0.3, roll=0.1, view_angle=1.14, width=640, height=360)
    x, y = torch.rand(100) * 640, torch.rand(100) * 360
    directions = camera.directions(x, y)
    assert torch.allclose(directions.norm(dim=0), torch.ones(100), atol=1e-5)
    px, py, forward = camera.project(directions * 37.0)
    assert torch.allclose(px, x, atol=0.02)
    assert torch.allclose(py, y, atol=0.02)
    assert (forward > 0).all()


def test_camera_axes_point_right_up_and_forward() -> None:
    ahead = CAMERA.directions(torch.tensor([32.0]), torch.tensor([24.0]))[:, 0]
    right = CAMERA.directions(torch.tensor([64.0]), torch.tensor([24.0]))[:, 0]
    up = CAMERA.directions(torch.tensor([32.0]), torch.tensor([0.0]))[:, 0]
    assert torch.allclose(ahead, torch.tensor([0.0, 0.0, 1.0]), atol=1e-6)
    assert right[0] > 0
    assert up[1] > 0


def test_box_is_met_where_its_face_is() -> None:
    solids = Solids([Solid(x=0.0, z=10.0, base=0.0, half_x=2.0, half_z=1.0, height=3.0)], CPU)
    rays = rays_towards((0, 0, 1), (0, 1, 1), (1, 0, 1), (0.19, 0, 1))
    solids.intersect(rays, 0, Window(0, 1, 0, 4), 0.0)
    assert float(rays.distance[0, 0, 0]) == pytest.approx(9.0, abs=1e-4)
    assert torch.isinf(rays.distance[0, 0, 1])
    assert torch.isinf(rays.distance[0, 0, 2])
    assert float(rays.distance[0, 0, 3]) == pytest.approx(9.0 * math.hypot(1, 0.19), abs=1e-3)
    assert rays.surface[0, 0].tolist() == [1, -1, -1, 1]


def test_moving_box_is_where_its_speed_takes_it() -> None:
    solids = Solids([Solid(x=0.0, z=10.0, base=0.0, half_x=2.0, half_z=1.0, height=3.0, velocity=(0.0, 5.0))], CPU)
    rays = rays_towards((0, 0, 1))
    solids.intersect(rays, 0, Window(0, 1, 0, 1), 0.4)
    assert float(rays.distance[0, 0, 0]) == pytest.approx(11.0, abs=1e-4)


def test_gable_roof_slopes_to_its_ridge() -> None:
    building = Solid(x=0.0, z=10.0, base=0.0, half_x=2.0, half_z=3.0, height=1.0, slope=1.0)
    rays = Rays.start(
        torch.tensor([0.5, 20.0, 10.0]).reshape(3, 1, 1, 1),
        torch.tensor([0.0, -1.0, 0.0]).reshape(3, 1, 1, 1),
        (0, 0, 0),
    )
    Solids([building], CPU).intersect(rays, 0, Window(0, 1, 0, 1), 0.0)
    assert float(rays.distance) == pytest.approx(20.0 - (1.0 + 2.0 - 0.5), abs=1e-4)


def test_rock_is_met_where_its_sphere_is() -> None:
    texture = SolidTexture(CPU)
    rock = Tree((0.0, 1.5, 10.0), [(0.0, 0.0, 0.0, 2.0)], 1.0, 2.0, (0.2, 0.2, 0.2), None, 2.0)
    trees = Trees([rock], CPU, texture, first=5)
    rays = rays_towards((0, 0, 1), (0, 1, 1))
    trees.intersect(rays, 0, Window(0, 1, 0, 2), 0.001)
    assert float(rays.distance[0, 0, 0]) == pytest.approx(8.0, abs=1e-3)
    assert torch.isinf(rays.distance[0, 0, 1])
    assert rays.surface[0, 0].tolist() == [5, -1]


def test_leaves_stay_in_place_when_seen_from_elsewhere() -> None:
    """A hit point on a crown, looked at from another place, is met again unless something is before it."""
    texture = SolidTexture(CPU)
    crown = Tree((0.0, 1.5, 10.0), [(0.0, 0.0, 0.0, 2.0)], 1.0, 2.0, (0.2, 0.2, 0.2), 0.3, 3.0)
    trees = Trees([crown], CPU, texture, first=1)
    x, y = torch.meshgrid(torch.linspace(-0.15, 0.15, 40), torch.linspace(-0.15, 0.15, 40), indexing="xy")
    d = torch.stack([x, y, torch.ones_like(x)])
    first = Rays.start(torch.zeros(3, 1, 1, 1), (d / d.norm(dim=0))[:, None], (0.0, 1.5, 0.0))
    trees.intersect(first, 0, Window(0, 40, 0, 40), 0.0005)
    hit = torch.isfinite(first.distance)
    assert 0.3 < hit.float().mean() <= 1.0
    points = first.direction * first.distance.clamp(max=1e3)
    moved = points - torch.tensor([0.4, 0.1, 0.0]).reshape(3, 1, 1, 1)
    far = moved.norm(dim=0)
    second = Rays.start(torch.zeros(3, 1, 1, 1), moved / far, (0.4, 1.6, 0.0))
    trees.intersect(second, 0, Window(0, 40, 0, 40), 0.0005)
    behind = (second.distance > far + 0.02)[hit]
    assert behind.float().mean() < 0.05


def test_noise_tiles_and_has_unit_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    field = spectral_noise(64, 1.0, generator)
    assert float(field.std()) == pytest.approx(1.0, abs=1e-3)
    texture = DetailTexture(CPU)
    u, v, tiny = torch.rand(500) * 40, torch.rand(500) * 40, torch.full((500,), 1e-3)
    assert torch.allclose(texture.sample(u, v, 7.0, tiny), texture.sample(u + 14.0, v - 7.0, 7.0, tiny), atol=0.05)
    assert (texture.sample(u, v, 7.0, torch.full((500,), 10.0)).abs() < 0.05).all()
    spread = texture.sample(u, v, 7.0, tiny).std(dim=1)
    assert ((spread > 0.7) & (spread < 1.3)).all()


def test_pulse_keeps_its_mean_at_every_footprint() -> None:
    x = torch.linspace(0, 10, 20001)[:-1]
    for footprint in (0.001, 0.3, 1.0, 4.0):
        y = pulse(x, 0.3, torch.full_like(x, footprint))
        assert float(y.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(pulse(x, 0.3, torch.full_like(x, 50.0)).std()) < 0.02


def test_hash_is_even() -> None:
    n = torch.arange(20000)
    values = hash01(n, n // 7)
    assert 0 <= float(values.min()) <= float(values.max()) < 1
    assert float(values.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(values.std()) == pytest.approx(math.sqrt(1 / 12), abs=0.02)
