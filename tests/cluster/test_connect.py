"""Starting a local cluster on a machine that is too busy at first."""

from types import SimpleNamespace

import pytest

from libranet.cluster.ray_pool import LOCAL, MOST_LOCAL_STARTS, ClusterError, connect


@pytest.fixture
def starts(monkeypatch) -> list[int]:
    """Counts the starts; those before the number in it fail as Ray's do."""
    ray = pytest.importorskip("ray", reason="pip install 'libranet[cluster]'")
    state = [0, 0]

    def init(*_: object, **options: object) -> SimpleNamespace:
        state[0] += 1
        if state[0] < state[1]:
            raise Exception("The current node timed out during startup.\nLong story")
        return SimpleNamespace(dashboard_url="")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    return state


def test_a_local_cluster_is_started_once_more(starts):
    starts[1] = MOST_LOCAL_STARTS
    assert connect(LOCAL) == ""
    assert starts[0] == MOST_LOCAL_STARTS


def test_after_some_starts_the_reason_is_one_line(starts):
    starts[1] = 100
    with pytest.raises(
        ClusterError, match=r"did not start on this machine \(The current node timed out.*startup\.\): is"
    ):
        connect(LOCAL)
    assert starts[0] == MOST_LOCAL_STARTS


def test_another_address_is_tried_once(starts):
    starts[1] = 100
    with pytest.raises(ClusterError, match=r"no Ray cluster at ray://head:1 "):
        connect("ray://head:1")
    assert starts[0] == 1
