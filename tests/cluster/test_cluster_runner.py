"""Tasks to workers, with every kind of trouble, in simulated time."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libranet.cluster.joining import ClusterError
from libranet.cluster.runner import MOST_DEATHS, RETRIES, Attempt, Runner
from libranet.cluster.tasks import Died, Done, Failed, Finished, Outcome, Split, Step, Task, WorkerInfo


@dataclass
class ScriptedPool:
    """Workers that answer with what a script says, task by task, in the order in which they were started."""

    workers: list[WorkerInfo]
    script: dict[str, list[Outcome | str]]
    """Answers to each task, one after another; a string is the worker's death, and no entry a success."""
    now: float = 0.0
    busy: dict[str, tuple[float, Task]] = field(default_factory=dict)
    started: list[tuple[str, str]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    speeds: dict[str, float] = field(default_factory=dict)
    """Of workers that are not of the ordinary speed."""

    def idle(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.name not in self.busy]

    def nodes(self) -> set[str]:
        return {worker.node for worker in self.workers}

    def start(self, worker: WorkerInfo, task: Task) -> None:
        assert worker.name not in self.busy
        self.started.append((worker.name, task.key))
        self.busy[worker.name] = (self.now + task.cost / self.speeds.get(worker.name, 1.0), task)

    def wait(self, seconds: float) -> list[Finished | Died]:
        if not self.busy:
            self.now += seconds
            return []
        name = min(self.busy, key=lambda worker: self.busy[worker][0])
        self.now, task = self.busy.pop(name)
        worker = next(worker for worker in self.workers if worker.name == name)
        answers = self.script.get(task.key, [])
        answer = answers.pop(0) if answers else Done({"new_frames": 1})
        return [Died(worker, answer) if isinstance(answer, str) else Finished(worker, answer)]

    def want(self, count: int) -> None:
        self.wanted.append(count)

    def stop(self, worker: WorkerInfo) -> None:
        self.stopped.append(worker.name)
        self.busy[worker.name] = (self.now, self.busy[worker.name][1])

    def steps(self) -> dict[str, Step]:
        return {name: Step(0, 100, 0) for name in self.busy}

    def clock(self) -> float:
        return self.now


def pool(script: dict[str, list[Outcome | str]] | None = None, *, count: int = 2, nodes: int = 1) -> ScriptedPool:
    return ScriptedPool([WorkerInfo(f"w{i}", f"n{i % nodes}") for i in range(count)], script or {})


def tasks(*costs: float) -> list[Task]:
    return [Task(f"t{i}", None, cost) for i, cost in enumerate(costs)]


def test_every_task_ends_once_and_the_longest_begin_first():
    ended = []
    workers = pool()
    results = Runner(workers, on_result=lambda result: ended.append(result.key)).run(tasks(1, 5, 3, 2))
    assert [result.key for result in results] == ["t0", "t1", "t2", "t3"]
    assert sorted(ended) == ["t0", "t1", "t2", "t3"]
    assert [key for _, key in workers.started] == ["t1", "t2", "t3", "t0"]
    assert workers.now == 6.0  # 5 + 1 beside 3 + 2


def test_a_worker_that_is_faster_does_more():
    workers = pool(count=3)
    workers.speeds = {"w1": 3.0}
    Runner(workers).run(tasks(*[1.0] * 50))
    done = [[name for name, _ in workers.started].count(f"w{i}") for i in range(3)]
    assert done == [10, 30, 10]
    assert workers.now == 10.0


def test_a_task_goes_on_after_deaths_and_is_given_up_when_they_do_not_end():
    script = {"t0": ["killed", "killed"], "t1": ["killed"] * 99}
    runner = Runner(pool(script))
    results = runner.run(tasks(1, 1, 1))
    assert [result.status for result in results] == ["done", "failed", "done"]
    assert results[0].attempts == 3
    assert results[1].attempts == MOST_DEATHS
    assert "killed" in results[1].error
    assert runner.state.deaths == 2 + MOST_DEATHS


def test_a_task_that_gets_further_each_time_is_not_given_up():
    workers = pool({"t0": ["killed"] * 20}, count=1)
    answer, further, asked = workers.wait, iter(range(1, 100)), iter(range(1000))
    workers.wait = lambda seconds: answer(seconds) if next(asked) % 2 else []  # the runner looks once in between
    workers.steps = lambda: {"w0": Step(next(further), 100, 0)} if workers.busy else {}
    assert Runner(workers).run(tasks(1))[0].status == "done"


def test_an_unreadable_source_fails_at_once_and_a_bug_after_a_second_try():
    script = {"t0": [Failed("input", "no video")] * 9, "t1": [Failed("bug", "oops")] * 9, "t2": [Failed("bug", "x")]}
    workers = pool(script)
    results = Runner(workers).run(tasks(1, 1, 1))
    assert [(r.status, r.error) for r in results] == [("failed", "no video"), ("failed", "oops"), ("done", "")]
    assert [key for _, key in workers.started].count("t0") == 1
    assert [key for _, key in workers.started].count("t1") == 2


@pytest.mark.parametrize("done", [0, 1, 3])
def test_what_was_done_before_the_cluster_was_lost_is_reported(done):
    workers, answers = pool({"t4": [Split((Task("t4/0", None), Task("t4/1", None)), *2 * [Task("t4", None)])]}), []
    answer = workers.wait

    def wait(seconds):
        if sum(key != "t4" for key in answers) == done:
            raise ClusterError("no worker can start: check the nodes of the cluster")
        events = answer(seconds)
        answers.extend("t4" if isinstance(event.outcome, Split) else "done" for event in events)
        return events

    workers.wait = wait
    ended = []
    runner = Runner(workers, on_result=lambda result: ended.append(result.key))
    if not done:
        with pytest.raises(ClusterError):
            runner.run(tasks(1, 1, 1, 1, 9))
        return
    results = runner.run(tasks(1, 1, 1, 1, 9))
    assert [result.key for result in results] == [f"t{i}" for i in range(5)]
    assert sorted(ended) == [f"t{i}" for i in range(5)]
    assert sum(result.status == "done" for result in results) == done
    assert {result.error for result in results if result.status == "failed"} == {
        "no worker can start: check the nodes of the cluster"
    }
    assert (runner.state.done, runner.state.failed) == (done, 5 - done)


def test_a_full_disk_sends_the_task_to_another_node_and_fails_where_there_is_none():
    full = Failed("output", "the disk is full")
    workers = pool({"t0": [full]}, nodes=2)
    assert Runner(workers).run(tasks(1))[0].status == "done"
    assert len({name for name, _ in workers.started}) == 2
    alone = Runner(pool({"t0": [full] * 9})).run(tasks(1))[0]
    assert (alone.status, alone.error, alone.attempts) == ("failed", "the disk is full", 1)


def test_a_busy_output_is_asked_for_again_later():
    workers = pool({"t0": [Failed("busy", "held")] * 3}, count=1)
    result = Runner(workers).run(tasks(1))[0]
    assert (result.status, result.attempts) == ("done", 4)
    assert workers.now >= 4 + 3 * 2


def test_a_store_that_fails_is_asked_again_later_and_later_and_then_the_job_is_given_up():
    down = Failed("store", "cannot read s3://b/a.mp4 in 5 tries")
    tries = RETRIES["store"].tries
    workers = pool({"t0": [down] * 3, "t1": [down] * 99})
    attempts: list[Attempt] = []
    results = Runner(workers, on_attempt=attempts.append).run(tasks(1, 1, 1))
    assert [(result.status, result.trouble) for result in results] == [("done", ""), ("failed", "store"), ("done", "")]
    assert results[1].error == down.sentence
    mine = [attempt for attempt in attempts if attempt.key == "t1"]
    assert len(mine) == tries
    pauses = [after.begin - before.end for before, after in itertools.pairwise(mine)]
    # Twice as long each time, by chance at least half of that; four minutes at most.
    assert all(4 * 2**number / 2 <= pause <= 4 * 2**number + 1 for number, pause in enumerate(pauses[:5]))
    assert max(pauses) <= 241
    assert 300 < sum(pauses) < 1000
    assert [attempt.last for attempt in mine] == [False] * (tries - 1) + [True]


def test_tasks_that_failed_together_do_not_come_back_together():
    workers = pool({f"t{i}": [Failed("store", "down")] for i in range(20)}, count=20)
    attempts: list[Attempt] = []
    Runner(workers, on_attempt=attempts.append).run(tasks(*[1.0] * 20))
    again = [attempt.begin for attempt in attempts if attempt.outcome == "done"]
    assert len({round(begin, 1) for begin in again}) > 2


def test_a_worker_over_its_deadline_is_stopped_and_the_job_has_one_more_try():
    workers = pool({"t0": ["killed", "killed"], "t1": ["killed"]}, count=3)
    workers.speeds = {f"w{i}": 0.01 for i in range(3)}  # 100 s for each
    answer, calls = workers.wait, itertools.count()
    workers.wait = lambda seconds: [] if next(calls) % 3 and not workers.stopped else answer(seconds)
    clock = iter(range(0, 10**6, 5))
    workers.clock = lambda: workers.now + next(clock)
    attempts: list[Attempt] = []
    results = Runner(workers, on_attempt=attempts.append, deadline=30).run(tasks(1, 1, 0.1))
    assert workers.stopped
    assert results[0].trouble == "deadline"
    assert "longer than 30 s: raise --deadline" in results[0].error
    assert [attempt.outcome for attempt in attempts if attempt.key == "t0"] == ["deadline"] * 2


def test_a_node_with_a_full_disk_gets_less_until_a_job_there_has_ended():
    """Two workers of one node; the second job finds no room while the first runs."""
    workers = pool({"t1": [Failed("crowded", "no room")] * 3})
    attempts: list[Attempt] = []
    results = Runner(workers, on_attempt=attempts.append).run(tasks(30, 1, 1))
    assert [result.status for result in results] == ["done"] * 3
    crowded = [attempt for attempt in attempts if attempt.outcome == "crowded"]
    assert len(crowded) == 3
    others = [attempt.begin for attempt in attempts if attempt.key == "t2"]
    assert others[0] - crowded[0].end >= RETRIES["crowded"].wait  # the node had nothing new meanwhile


def test_a_drained_job_goes_on_at_once_and_is_never_given_up_for_it():
    workers = pool({"t0": [Failed("drained", "the node goes")] * 20})
    result = Runner(workers).run(tasks(1))[0]
    assert (result.status, result.attempts) == ("done", 21)
    assert workers.now == 21


def test_the_pool_hears_how_many_workers_have_work():
    workers = pool(count=4)
    Runner(workers).run(tasks(*[1.0] * 6))
    assert workers.wanted[0] == 6
    assert workers.wanted[-1] < 6


def split(parts: int) -> Split:
    made = tuple(Task(f"p{i}", None, 1.0) for i in range(parts))
    return Split(made, Task("join", None, 0.1), Task("whole", None, 4.0))


def test_parts_run_side_by_side_and_are_joined_once():
    workers = pool({"t0": [split(4)], "p2": ["killed"]})
    result = Runner(workers).run(tasks(4))[0]
    keys = [key for _, key in workers.started]
    assert (result.key, result.status) == ("t0", "done")
    assert keys.count("join") == 1
    assert keys.index("join") == len(keys) - 1
    assert "whole" not in keys


def test_a_part_that_cannot_be_exact_makes_its_video_whole():
    workers = pool({"t0": [split(4)], "p1": [Failed("whole", "damaged")]}, count=3)
    result = Runner(workers).run(tasks(4))[0]
    keys = [key for _, key in workers.started]
    assert result.status == "done"
    assert (keys.count("whole"), keys.count("join")) == (1, 0)


def test_a_failed_part_fails_its_video_and_nothing_else():
    workers = pool({"t0": [split(6)], "p0": [Failed("input", "unreadable")]})
    results = Runner(workers).run(tasks(6, 1, 1))
    assert [result.status for result in results] == ["failed", "done", "done"]
    assert "join" not in [key for _, key in workers.started]


def test_parts_that_no_node_can_write_fail_their_video_once():
    full = Failed("output", "the disk is full")
    ended: list[str] = []
    workers = pool({"t0": [split(6)], **{f"p{i}": [full] * 9 for i in range(6)}}, count=4, nodes=2)
    runner = Runner(workers, on_result=lambda result: ended.append(result.key))
    assert [result.status for result in runner.run(tasks(6, 1))] == ["failed", "done"]
    assert sorted(ended) == ["t0", "t1"]
    assert (runner.state.done, runner.state.failed) == (1, 1)


def test_a_worker_gets_its_next_task_before_the_others_are_asked_how_far_they_are():
    workers = pool()
    idle_while_asked: list[int] = []
    runner = Runner(workers)
    steps = workers.steps
    workers.steps = lambda: idle_while_asked.append(len(workers.idle()) if runner._queue else 0) or steps()
    runner.run(tasks(*range(1, 9)))
    assert idle_while_asked
    assert set(idle_while_asked) == {0}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.1, 9), min_size=1, max_size=12),
    st.integers(1, 5),
    st.dictionaries(st.integers(0, 11), st.lists(st.sampled_from(["killed", "bug", "busy"]), max_size=3)),
)
def test_whatever_happens_every_task_ends_exactly_once(costs, count, trouble):
    script = {
        f"t{i}": ["killed" if kind == "killed" else Failed(kind, "x") for kind in kinds] for i, kinds in trouble.items()
    }
    ended: list[str] = []
    results = Runner(pool(script, count=count), on_result=lambda result: ended.append(result.key)).run(tasks(*costs))
    assert sorted(ended) == sorted(f"t{i}" for i in range(len(costs)))
    bugs = {f"t{i}": kinds.count("bug") for i, kinds in trouble.items()}
    assert all((result.status == "done") == (bugs.get(result.key, 0) < 2) for result in results)
