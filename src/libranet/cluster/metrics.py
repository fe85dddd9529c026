"""A run's numbers as metrics of Ray: each node serves them to Prometheus, and Ray's dashboard shows them."""

from collections.abc import Callable

from libranet.cluster.runner import JobState
from libranet.cluster.tasks import Step

_NUMBERS: dict[str, tuple[str, Callable[[JobState], float]]] = {
    "tasks": ("Videos or other tasks of the run.", lambda state: state.tasks),
    "tasks_done": ("Tasks that are done, now or before.", lambda state: state.done),
    "tasks_failed": ("Tasks that failed for good.", lambda state: state.failed),
    "frames": ("Frames restored in this run.", lambda state: state.frames),
    "fps": ("Frames per second of all workers together.", lambda state: state.fps),
    "seconds_left": ("Seconds until the end at this pace.", lambda state: state.seconds_left or 0.0),
    "worker_deaths": ("Workers that died in the middle of a task.", lambda state: state.deaths),
    "workers_busy": ("Workers with a task.", lambda state: len(state.workers)),
}


class JobMetrics:
    """Gauges of one run. Their names begin with `ray_libranet_` where Prometheus reads them."""

    def __init__(self) -> None:
        from ray.util.metrics import Gauge

        self._gauges = {name: Gauge(f"libranet_{name}", description=text) for name, (text, _) in _NUMBERS.items()}
        frames, fps = "Frames of a worker's task so far; 0 for a worker without one.", "Their frames per second."
        self._frames = Gauge("libranet_worker_frames", description=frames, tag_keys=("worker",))
        self._fps = Gauge("libranet_worker_fps", description=fps, tag_keys=("worker",))
        self._seen: set[str] = set()

    def update(self, state: JobState) -> None:
        """Publish the state of the run."""
        for name, (_, number) in _NUMBERS.items():
            self._gauges[name].set(float(number(state)))
        self._seen |= state.workers.keys()
        for name in self._seen:  # a gauge keeps its value until it gets another one
            _, step = state.workers.get(name, ("", Step()))
            self._frames.set(float(step.frames), tags={"worker": name})
            self._fps.set(step.fps, tags={"worker": name})
