"""`Dehazer` and every array that a program may hand it: the frame comes back in its own form, or with our own error."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from libranet import Dehazer
from libranet.errors import InputError, LibraNetError

BASE = np.random.default_rng(0).random((32, 48, 3))
HALF = torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(0))
GOOD = {
    **{kind: (BASE * 200).astype(kind) for kind in ("u1", "<u2", ">u2")},
    **{kind: BASE.astype(kind) for kind in ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8")},
    "a view from behind": BASE[::-1, ::-1].astype(np.float32)[::-1],
    "every second pixel": np.repeat(BASE, 2, axis=1)[:, ::2],
    "Fortran's order": np.asfortranarray(BASE),
    "read only": np.broadcast_to(BASE[:1, :1], (32, 48, 3)),
    "gray": BASE[..., :1],
    "big-endian gray": (BASE[..., :1] * 60000).astype(">u2"),
    "torch float64": HALF.double(),
    "torch bfloat16": HALF.bfloat16(),
    "torch float8": HALF.to(torch.float8_e4m3fn),
    "torch uint16": (HALF * 60000).to(torch.uint16),
    "torch with a gradient": HALF.clone().requires_grad_(),
    "torch in a batch": HALF[None],
    "torch transposed": HALF.transpose(1, 2),
}


class Broken:
    """An array whose library fails, or lies."""

    def __init__(self, capsule=None):
        self.capsule = capsule

    def __dlpack__(self, *_, **__):
        if self.capsule is None:
            raise BufferError("no memory for it")
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


BAD = {
    **{
        kind: np.zeros((32, 48, 3), kind)
        for kind in ("?", "i1", "i2", "i4", "u4", "i8", "u8", "c8", "c16", "g", "O", "S1", "U1", "M8[s]", "m8[s]", "V4")
    },
    "empty": np.zeros((0, 0, 3), np.uint8),
    "without rows": np.zeros((0, 48, 3), np.float32),
    "without channels": np.zeros((32, 48, 0), np.uint8),
    "a plane": np.zeros((32, 48), np.uint8),
    "with alpha": np.zeros((32, 48, 4), np.uint8),
    "five axes": np.zeros((1, 1, 32, 48, 3), np.uint8),
    "a number": np.array(3.0),
    "a record": np.zeros((32, 48), [("r", "u1"), ("g", "u1"), ("b", "u1")]),
    "masked": np.ma.masked_array(BASE, BASE > 0.5),
    "a list": [[1, 2, 3]],
    "nothing": None,
    "a word": "frame",
    "not a number": np.full((32, 48, 3), np.nan),
    "infinite": np.full((32, 48, 3), np.inf),
    "too bright": np.full((32, 48, 3), 1.5),
    "tiny": np.zeros((4, 4, 3), np.uint8),
    "a line": np.zeros((1, 5000, 3), np.uint8),
    "huge": np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (200_000, 200_000, 3)),
    "torch integers": HALF.long(),
    "torch complex": HALF.to(torch.complex64),
    "torch sparse": HALF.to_sparse(),
    "torch meta": HALF.to("meta"),
    "torch empty": torch.zeros(3, 0, 0),
    "torch number": torch.tensor(1.0),
    "torch batch": HALF.expand(2, 3, 32, 48),
    "torch huge": torch.zeros(1, dtype=torch.uint8).expand(3, 200_000, 200_000),
    "broken DLPack": Broken(),
    "lying DLPack": Broken(3),
}


@pytest.fixture(scope="module")
def still():
    """Strength 0: what comes back must be what went in, bit for bit."""
    from libranet.network import LiBrANet
    from tiny_network import TINY, perturb

    return Dehazer(perturb(LiBrANet(TINY)).eval(), device="cpu", strength=0.0, live=True)


@pytest.mark.parametrize("name", GOOD)
def test_strength_0_returns_the_frame_in_its_own_form(still, name):
    frame = GOOD[name]
    result = still.image(frame)
    assert type(result) is type(frame)
    assert (result.dtype, result.shape) == (frame.dtype, frame.shape)
    if isinstance(frame, np.ndarray):
        assert result.tobytes() == np.ascontiguousarray(frame).tobytes()
    else:
        assert torch.equal(result.float(), frame.detach().float())
        assert torch.equal(result.double(), frame.detach().double())


@pytest.mark.parametrize("name", BAD)
def test_everything_else_is_refused_in_a_sentence(still, name):
    with pytest.raises(InputError, match=r"^expected "):
        still.push(BAD[name])


def test_images_of_a_live_dehazer_know_nothing_of_each_other(tiny_model):
    dehazer = Dehazer(tiny_model, device="cpu", live=True)
    alone = dehazer.image(BASE)
    dehazer.image(np.ascontiguousarray(BASE[:20, :40][::-1]))  # of another size
    assert np.array_equal(dehazer.image(BASE), alone)


def test_float64_is_as_exact_as_float32(tiny_model):
    dehazer = Dehazer(tiny_model, device="cpu", live=True)
    fine, coarse = dehazer.image(BASE), dehazer.image(BASE.astype(np.float32))
    assert np.abs(fine - coarse).max() < 1e-6
    assert not np.array_equal(fine, coarse.astype(np.float64))


@pytest.mark.parametrize(
    "choice",
    [
        *({"strength": value} for value in ("1", None, float("nan"), 2, -0.1, True, [1])),
        *({"steady": value} for value in ("a", None, -1, True)),
        *({"rate": value} for value in (0, float("nan"), "x", None)),
        *({"batch": value} for value in (0, 1.5, "2", None)),
        {"live": "yes"},
        {"backend": 3},
        {"backend": "quick"},
        {"device": 3},
        {"device": None},
    ],
    ids=str,
)
def test_choices_of_a_wrong_type_or_range_are_refused(tiny_model, choice):
    with pytest.raises(LibraNetError):
        Dehazer(tiny_model, **({"device": "cpu"} | choice))


def test_cuts_must_be_as_many_as_frames(tiny_model):
    dehazer = Dehazer(tiny_model, device="cpu", live=True)
    with pytest.raises(InputError, match="a cut for each frame"):
        dehazer.push_many([BASE] * 3, cuts=[True])
    with pytest.raises(InputError, match="several frames"):
        dehazer.push_many(3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("again", [False, True], ids=["the same", "a new one"])
def test_a_fork_after_use_is_refused_in_a_sentence(tiny_model, again):
    """OpenMP's threads do not survive it, and the first frame would wait for ever."""
    dehazer = Dehazer(tiny_model, device="cpu", live=True)
    dehazer.push(BASE)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work():
        try:
            (Dehazer(tiny_model, device="cpu", live=True) if again else dehazer).push(BASE)
            theirs.send("restored")
        except BaseException as error:
            theirs.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=work)
    process.start()
    assert ours.poll(60), "the child hangs"
    assert ours.recv().startswith("InputError: this process was forked")
    process.join()


def test_calls_of_several_threads_wait_for_each_other(tiny_model):
    frames = [np.full((32, 48, 3), 20 * number, np.uint8) for number in range(4)]
    alone = [Dehazer(tiny_model, device="cpu").image(frame) for frame in frames]
    shared, video = Dehazer(tiny_model, device="cpu"), Dehazer(tiny_model, device="cpu")

    def use(number):
        images = [shared.image(frames[number]) for _ in range(10)]
        return images, [ready for _ in range(10) for ready in video.push(frames[number])]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(use, range(4)))
    for number, (images, _) in enumerate(found):
        assert all(np.array_equal(image, alone[number]) for image in images)
    assert sum(len(ready) for _, ready in found) + len(video.flush()) == 40
