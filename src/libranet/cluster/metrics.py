"""A run's numbers as metrics of Ray: each node serves them to Prometheus, and Ray's dashboard shows them.

The driver publishes all of them, from what workers answer. In Prometheus each name begins with `ray_libranet_`.
"""

from collections.abc import Callable
from typing import Any

from libranet.cluster.runner import Attempt, JobState
from libranet.cluster.tasks import Step

_NUMBERS: dict[str, tuple[str, Callable[[JobState], float]]] = {
    "tasks": ("Videos or other tasks of the run.", lambda state: state.tasks),
    "tasks_done": ("Tasks that are done, now or before.", lambda state: state.done),
    "tasks_failed": ("Tasks that failed for good.", lambda state: state.failed),
    "tasks_waiting": ("Tasks and parts of long videos that no worker has.", lambda state: state.waiting),
    "queue_age_seconds": ("How long the oldest of them could have begun.", lambda state: state.oldest),
    "frames": ("Frames restored in this run.", lambda state: state.frames),
    "fps": ("Frames per second of all workers together.", lambda state: state.fps),
    "seconds_left": ("Seconds until the end at this pace.", lambda state: state.seconds_left or 0.0),
    "worker_deaths": ("Workers that died in the middle of a task.", lambda state: state.deaths),
    "workers_busy": ("Workers with a task.", lambda state: len(state.workers)),
}
_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 10800]
"""Upper ends of the histograms' buckets: from a request to a long video."""
_HISTOGRAMS = {
    "stage_seconds": ("Seconds of an attempt in each stage, such as fetch, decode or upload.", "stage"),
    "attempt_seconds": ("Seconds from the start of an attempt to its end.", "outcome"),
    "queue_seconds": ("Seconds that a task waited for a worker.", ""),
}
_COUNTERS = {
    "attempts": ("Attempts, by how they ended.", ("outcome",)),
    "store_errors": ("Failed requests to object stores, also those repeated with success.", ("operation", "kind")),
}
_BUSY = ("decode", "network", "encode")
"""Stages inside of `restore`, which run side by side: their busy time."""
NAMES = (*_NUMBERS, *_HISTOGRAMS, *(f"{name}_total" for name in _COUNTERS), "worker_frames", "worker_fps")
"""All metrics, as Prometheus names them after the prefix."""


class JobMetrics:
    """The metrics of one run."""

    def __init__(self) -> None:
        from ray.util.metrics import Counter, Gauge, Histogram

        self._gauges = {name: Gauge(f"libranet_{name}", description=text) for name, (text, _) in _NUMBERS.items()}
        self._histograms = {
            name: Histogram(f"libranet_{name}", description=text, boundaries=_SECONDS, tag_keys=(tag,) if tag else ())
            for name, (text, tag) in _HISTOGRAMS.items()
        }
        self._counters: dict[str, Any] = {
            name: Counter(f"libranet_{name}", description=text, tag_keys=tags)
            for name, (text, tags) in _COUNTERS.items()
        }
        frames, fps = "Frames of a worker's task so far; 0 for a worker without one.", "Their frames per second."
        self._frames = Gauge("libranet_worker_frames", description=frames, tag_keys=("worker",))
        self._fps = Gauge("libranet_worker_fps", description=fps, tag_keys=("worker",))
        self._seen: set[str] = set()

    def update(self, state: JobState) -> None:
        for name, (_, number) in _NUMBERS.items():
            self._gauges[name].set(float(number(state)))
        self._seen |= state.workers.keys()
        for name in self._seen:  # a gauge keeps its value until it gets another one
            _, step = state.workers.get(name, ("", Step()))
            self._frames.set(float(step.frames), tags={"worker": name})
            self._fps.set(step.fps, tags={"worker": name})

    def observe(self, attempt: Attempt) -> None:
        self._counters["attempts"].inc(tags={"outcome": attempt.outcome})
        self._histograms["attempt_seconds"].observe(attempt.end - attempt.begin, tags={"outcome": attempt.outcome})
        self._histograms["queue_seconds"].observe(attempt.waited)
        stages = [(span.name, span.end - span.begin) for span in attempt.spans if not span.inside]
        stages += [(name, span.facts[name]) for span in attempt.spans for name in _BUSY if name in span.facts]
        for name, seconds in stages:
            self._histograms["stage_seconds"].observe(max(0.0, seconds), tags={"stage": name})
        for (operation, kind), count in attempt.store_errors.items():
            self._counters["store_errors"].inc(count, tags={"operation": operation, "kind": kind})
