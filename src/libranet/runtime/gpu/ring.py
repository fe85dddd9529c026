"""Which frames a step of the fused path reads and writes, and in which slots of its ring buffers they are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RingSchedule:
    """Slots of each step, from the batch, the look-ahead and the mode alone."""

    batch: int  # frames per step
    lookahead: int  # future frames that a frame waits for
    radius: int  # T // 2
    overlap: bool
    """Restoring lags one more batch behind, so that encoders and refiner work on different frames."""

    @property
    def delay(self) -> int:
        """How many frames restoring lags behind."""
        return self.lookahead + (self.batch if self.overlap else 0)

    @property
    def frame_ring(self) -> int:
        """Slots for frames: those not yet restored and a batch being copied, an even number of batches."""
        return _round_up(self.delay + 2 * self.batch, 2 * self.batch)

    @property
    def ring(self) -> int:
        """Slots for features, which windows reach back to: a multiple of the frames' ring."""
        return _round_up(self.delay + self.batch + max(self.radius, self.batch), self.frame_ring)

    def first_in(self, step: int) -> int:
        """The first slot that this step fills; modulo `frame_ring` for frames."""
        return step * self.batch % self.ring

    def first_out(self, step: int) -> int:
        """The first frame that this step restores; negative before the stream is filled."""
        return step * self.batch - self.delay

    def windows(self, step: int, count: int) -> list[list[int]]:
        """Slots of the windows of the frames restored, when the stream has `count` frames so far."""
        rows = []
        for frame in range(self.first_out(step), self.first_out(step) + self.batch):
            newest = max(min(frame + self.lookahead, count - 1), 0)
            reach = range(frame - self.radius, frame + self.radius + 1)
            rows.append([min(max(index, 0), newest) % self.ring for index in reach])
        return rows


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
