"""A pinhole camera and the paths it flies. Axes: x right, y up, z forward; pixel centres lie at half-integers."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.roads import Road

TURN = 6.0  # seconds of path that are known to be free


@dataclass(frozen=True)
class Camera:
    """Where one frame is taken from."""

    position: tuple[float, float, float]
    yaw: float
    """Radians, 0 looks along +z, positive turns towards +x."""
    pitch: float
    """Radians, positive looks up."""
    roll: float
    focal: float
    """Pixels."""
    width: int
    height: int

    def rotation(self) -> Tensor:  # [3, 3] float64, columns are right, up, forward in the world
        cy, sy, cp, sp = math.cos(self.yaw), math.sin(self.yaw), math.cos(self.pitch), math.sin(self.pitch)
        cr, sr = math.cos(self.roll), math.sin(self.roll)
        right, up, forward = (cy, 0.0, -sy), (-sy * sp, cp, -cy * sp), (sy * cp, sp, cy * cp)
        rolled_right = [cr * a + sr * b for a, b in zip(right, up, strict=True)]
        rolled_up = [cr * b - sr * a for a, b in zip(right, up, strict=True)]
        return torch.tensor([rolled_right, rolled_up, list(forward)], dtype=torch.float64).T

    def directions(self, x: Tensor, y: Tensor) -> Tensor:
        """Unit rays [3, ...] through image points in pixels."""
        r = self.rotation().tolist()
        a, b = (x - self.width / 2) / self.focal, (self.height / 2 - y) / self.focal
        inverse = torch.rsqrt(a * a + b * b + 1)
        return torch.stack([(r[i][0] * a + r[i][1] * b + r[i][2]) * inverse for i in range(3)])

    def project(self, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Image x, y and forward distance of points [3, ...] relative to the camera; behind it where forward <= 0."""
        r = self.rotation().tolist()
        right, up, forward = (sum(r[i][j] * offsets[i] for i in range(3)) for j in range(3))
        scale = self.focal / torch.as_tensor(forward).clamp(min=1e-3)
        return self.width / 2 + right * scale, self.height / 2 - up * scale, torch.as_tensor(forward)


@dataclass(frozen=True)
class CameraPath:
    """A smooth move: speed and turning rates plus a slow sway, all exact functions of time."""

    start: tuple[float, float, float]
    velocity: tuple[float, float, float]
    yaw: float
    yaw_rate: float
    pitch: float
    pitch_rate: float
    sway: float
    """Size of the hand's or vehicle's shake, 1 is that of a car on a fair road."""
    phase: float
    view_angle: float
    """Horizontal field of view in radians."""
    road: Road | None
    """Follow this road: `start` and `yaw` are then relative to its centre line."""

    def at(self, time: float, width: int, height: int) -> Camera:
        """The camera at a time in seconds. After `TURN` seconds it goes back the way it came, and so on."""
        time = abs((time + TURN) % (2 * TURN) - TURN)
        x, y, z = (p + v * time for p, v in zip(self.start, self.velocity, strict=True))
        yaw = self.yaw
        if self.road is not None:
            yaw += self.road.heading(z)
            x, y = x + self.road.centre(z), y + self.road.level(z)
        a, b, c = (math.sin(f * time + self.phase * k) for f, k in ((2.1, 1.0), (3.3, 2.0), (1.3, 3.0)))
        return Camera(
            position=(x + 0.02 * self.sway * a, y + 0.02 * self.sway * b, z),
            yaw=yaw + self.yaw_rate * time + 0.004 * self.sway * c,
            pitch=self.pitch + self.pitch_rate * time + 0.004 * self.sway * a,
            roll=0.004 * self.sway * b,
            focal=0.5 * width / math.tan(0.5 * self.view_angle),
            width=width,
            height=height,
        )
