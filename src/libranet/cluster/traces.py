"""A run as an OpenTelemetry trace: the run, its jobs, their attempts, and the stages of each attempt.

Workers only note when a stage began and ended; this process makes the spans. So no worker needs an exporter, and an
attempt whose worker was killed still has its span.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from libranet.cluster.runner import Attempt
from libranet.errors import InputError, MissingDependencyError, install_command


class Traces:
    """Writes the spans of a run to a collector, or as JSON lines to a file."""

    def __init__(self, target: str, *, exporter: Any = None) -> None:
        """Begin the trace of a run.

        Args:
            target: The address of an OTLP collector, such as http://localhost:4318, or a file.
            exporter: Another exporter of spans, instead.
        """
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
        except ImportError:
            raise MissingDependencyError(f"--traces needs OpenTelemetry: {install_command('cluster')}") from None
        self._trace = trace
        self._open = ExitStack()
        if exporter is None and "://" in target:
            exporter = _collector(target)
        elif exporter is None:
            try:
                file = self._open.enter_context(Path(target).open("w", encoding="utf-8"))  # noqa: SIM115
            except OSError as error:
                raise InputError(f"cannot write --traces {target} ({error.strerror}): choose another file") from None
            exporter = ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")
        self._provider = TracerProvider(resource=Resource.create({"service.name": "libranet"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("libranet.cluster")
        self._since_boot = time.time() - time.monotonic()
        self._run = self._tracer.start_span("run")
        self._jobs: dict[str, Any] = {}

    def __enter__(self) -> "Traces":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._run.set_status(self._trace.StatusCode.ERROR, kind.__name__ if kind else "")
        for job in self._jobs.values():
            if job.is_recording():
                job.end()
        self._run.end()
        self._provider.shutdown()
        self._open.close()

    def attempt(self, attempt: Attempt) -> None:
        begin, end = self._since_boot + attempt.begin, self._since_boot + attempt.end
        job = self._jobs.get(attempt.given)
        if job is None:
            job = self._start("job", self._run, begin - attempt.waited, {"output": attempt.given})
            self._jobs[attempt.given] = job
        facts: dict[str, Any] = {"task": attempt.key, "worker": attempt.worker.name, "node": attempt.worker.node}
        facts |= {"outcome": attempt.outcome, "waited": round(attempt.waited, 3)}
        facts |= {f"store_errors.{name}": count for (name, _), count in attempt.store_errors.items()}
        span = self._start("attempt", job, begin, facts)
        made: dict[str, Any] = {}
        # Stages are noted when they end, those inside of others first.
        for stage in sorted(attempt.spans, key=lambda stage: (stage.inside != "", stage.begin)):
            child = self._start(stage.name, made.get(stage.inside, span), stage.begin, stage.facts)
            made[stage.name] = child
            child.end(_nanoseconds(stage.end))
        if attempt.error:
            span.set_status(self._trace.StatusCode.ERROR, attempt.error)
        span.end(_nanoseconds(end))
        if attempt.last and job.is_recording():
            if attempt.error:
                job.set_status(self._trace.StatusCode.ERROR, attempt.error)
            job.end(_nanoseconds(end))

    def _start(self, name: str, parent: Any, begin: float, facts: dict[str, Any]) -> Any:
        context = self._trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context, attributes=facts, start_time=_nanoseconds(begin))


def _collector(target: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        needed = f"{install_command('cluster')} opentelemetry-exporter-otlp-proto-http"
        raise MissingDependencyError(f"--traces with an address needs the OTLP exporter: {needed}") from None
    path = target.rstrip("/")
    return OTLPSpanExporter(path if path.endswith("/v1/traces") else f"{path}/v1/traces")


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
