"""The process that does tasks. Ray starts it; it turns every error into an answer."""

import logging
import os
import threading
from collections.abc import Callable

from libranet.cluster.tasks import Failed, Outcome, Step, Task, Workload
from libranet.engine.options import OutputError
from libranet.engine.parts import CannotSplitError
from libranet.engine.segments import BusyError
from libranet.errors import LibraNetError

logger = logging.getLogger(__name__)


class Worker:
    """Holds a workload. `run` does one task at a time; the other methods answer meanwhile, on another thread."""

    def __init__(self, make: Callable[[], Workload]) -> None:
        self._workload = make()
        self._step = Step()
        self._lock = threading.Lock()

    def pid(self) -> int:
        """The process, once the workload is ready."""
        return os.getpid()

    def run(self, task: Task) -> Outcome:
        """Do a task. Only the death of this process is an error for the caller."""
        self._report(Step())
        try:
            return self._workload.run(task, self._report)
        except CannotSplitError as error:
            return Failed("whole", str(error))
        except BusyError as error:
            return Failed("busy", str(error))
        except OutputError as error:
            return Failed("output", str(error))
        except LibraNetError as error:
            return Failed("input", str(error))
        except Exception as error:  # the one boundary: a bug in one task must not take the worker with it
            logger.exception("task %s", task.key)
            return Failed("bug", f"unexpected {type(error).__name__} ({error}): this is a bug in libranet")
        finally:
            self._report(Step())

    def step(self) -> Step:
        """How far the task is."""
        with self._lock:
            return self._step

    def _report(self, step: Step) -> None:
        with self._lock:
            self._step = step
