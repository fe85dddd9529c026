"""A run's numbers as metrics of Ray: each node serves them to Prometheus, and Ray's dashboard shows them."""

from typing import Any

from libranet.cluster.runner import JobState
from libranet.cluster.tasks import Step


class JobMetrics:
    """Gauges of one run. Their names begin with `ray_libranet_` where Prometheus reads them."""

    def __init__(self) -> None:
        from ray.util.metrics import Gauge

        self._gauges: dict[str, Any] = {
            name: Gauge(f"libranet_{name}", description=text)
            for name, text in (
                ("tasks", "Videos or other tasks of the run."),
                ("tasks_done", "Tasks that are done, now or before."),
                ("tasks_failed", "Tasks that failed for good."),
                ("frames", "Frames restored in this run."),
                ("fps", "Frames per second of all workers together."),
                ("seconds_left", "Seconds until the end at this pace."),
                ("worker_deaths", "Workers that died in the middle of a task."),
                ("workers_busy", "Workers with a task."),
            )
        }
        self._workers: dict[str, Any] = {
            name: Gauge(f"libranet_worker_{name}", description=text, tag_keys=("worker",))
            for name, text in (
                ("frames", "Frames of a worker's task so far; 0 for a worker without one."),
                ("fps", "Frames per second of a worker's task."),
            )
        }
        self._seen: set[str] = set()

    def update(self, state: JobState) -> None:
        """Publish the state of the run."""
        values = {
            "tasks": state.tasks,
            "tasks_done": state.done,
            "tasks_failed": state.failed,
            "frames": state.frames,
            "fps": state.fps,
            "seconds_left": state.seconds_left or 0.0,
            "worker_deaths": state.deaths,
            "workers_busy": len(state.workers),
        }
        for name, value in values.items():
            self._gauges[name].set(float(value))
        self._seen |= state.workers.keys()
        for name in self._seen:  # a gauge keeps its value until it gets another one
            _, step = state.workers.get(name, ("", Step()))
            self._workers["frames"].set(float(step.frames), tags={"worker": name})
            self._workers["fps"].set(step.fps, tags={"worker": name})
