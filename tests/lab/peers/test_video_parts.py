"""Parts of the video peers against their fact sheets: neighbours, tokens that travel, memories."""

from typing import Any

import pytest
import torch
from torch import Tensor

from libranet.lab.peers import build_peer
from libranet.lab.peers.ds_tfn import Confidence, Past
from libranet.lab.peers.neighbourhood import NeighbourhoodAttention, neighbours
from libranet.lab.peers.shunted_transformer import SHIFTS, TOKENS, exchange, token_conv
from libranet.lab.peers.viws_net import TemporalConvs


@pytest.mark.parametrize(("length", "kernel", "dilation"), [(9, 9, 1), (23, 5, 4), (30, 3, 8)])
def test_neighbours_stay_inside_and_in_their_group(length: int, kernel: int, dilation: int) -> None:
    places, offsets = neighbours(length, kernel, dilation)
    for place in range(length):
        group = list(range(place % dilation, length, dilation))
        own = group.index(place)
        first = min(max(own - (kernel - 1) // 2, 0), len(group) - kernel)
        assert places[:, place].tolist() == group[first : first + kernel]
        assert offsets[:, place].tolist() == [first + step - own + kernel - 1 for step in range(kernel)]


def test_neighbourhood_attention_is_attention_to_a_few_pixels() -> None:
    torch.manual_seed(0)
    layer = NeighbourhoodAttention(heads=2, kernel=3, dilation=2)
    torch.nn.init.normal_(layer.table)
    query, key, value = torch.randn(3, 1, 8, 7, 6).unbind()
    (rows, row_offsets), (columns, column_offsets) = neighbours(7, 3, 2), neighbours(6, 3, 2)
    expected = torch.zeros(1, 8, 7, 6)
    for y in range(7):
        for x in range(6):
            seen = (..., rows[:, y, None], columns[None, :, x])
            k, v = (t[seen].unflatten(1, (2, 4)).flatten(3) for t in (key, value))  # [1, 2, 4, 9]
            bias = layer.table[:, row_offsets[:, y, None], column_offsets[None, :, x]].flatten(1)
            logits = torch.einsum("bhd,bhdn->bhn", query[..., y, x].unflatten(1, (2, 4)), k) / 2 + bias
            expected[..., y, x] = torch.einsum("bhn,bhdn->bhd", logits.softmax(-1), v).flatten(1)
    torch.testing.assert_close(layer.eval()(query, key, value), expected)
    torch.testing.assert_close(layer.train()(query, key, value), expected)  # by recomputation


def test_a_token_passes_a_convolution_as_a_constant_image() -> None:
    for groups in (1, 4):
        layer = torch.nn.Conv2d(4, 8, 3, groups=groups)
        tokens = torch.randn(2, TOKENS, 4)
        image = tokens[1, 5].view(1, 4, 1, 1).expand(-1, -1, 3, 3)
        torch.testing.assert_close(token_conv(layer, tokens)[1, 5], layer(image).flatten())


def test_tokens_travel_between_frames_and_return() -> None:
    frames, pixels = 5, 3
    x = torch.arange(2.0 * frames).view(-1, 1, 1).expand(-1, pixels + TOKENS, 1)  # every place holds its frame
    moved = exchange(x, frames, back=False)
    assert torch.equal(moved[:, :pixels], x[:, :pixels])
    for group, shift in enumerate(SHIFTS):
        found = moved[:, pixels + group * TOKENS // len(SHIFTS), 0].view(2, frames)
        assert found[1].tolist() == [frames + (frame - shift) % frames for frame in range(frames)]
    assert torch.equal(exchange(moved, frames, back=True), x)


def test_the_first_and_last_frame_are_repeated_in_time() -> None:
    layers = TemporalConvs(4)
    still = torch.rand(1, 1, 3, 6, 6)
    torch.testing.assert_close(layers(still.expand(-1, 4, -1, -1, -1)), layers(still).expand(-1, 4, -1, -1, -1))


def test_confidence_reads_the_frame_before() -> None:
    torch.manual_seed(0)
    layers, prior = Confidence(), torch.rand(1, 32, 4, 4)
    share, hidden = layers(prior, ())
    a = torch.nn.functional.leaky_relu(layers.hidden[0](prior.repeat(1, 4, 1, 1)), 0.1)
    torch.testing.assert_close(hidden[0], a)
    again = layers(prior, hidden)[1]
    b = torch.cat([prior, prior, hidden[0], hidden[2]], dim=1)
    torch.testing.assert_close(again[0], torch.nn.functional.leaky_relu(layers.hidden[0](b), 0.1))
    assert share.shape == (1, 1, 4, 4)
    assert share.gt(0).all()


def shaken(name: str) -> Any:
    """A peer whose zero-initialised layers are not zero, so that no part is silent."""
    peer = build_peer(name).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in peer.parameters():
            if not parameter.any():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    return peer


def moving(frames: int) -> Tensor:  # [1, T, 3, 32, 32]
    return torch.rand(1, frames, 3, 32, 32, generator=torch.Generator().manual_seed(2))


@torch.no_grad()
def test_ds_tfn_remembers_and_pads_by_itself() -> None:
    peer, clip = shaken("ds-tfn"), moving(2)[..., :28, :]
    first, state = peer.step(clip[:, 0], None)
    second, _ = peer.step(clip[:, 1], state)
    assert first.shape == second.shape == (1, 3, 28, 32)
    forgotten = (Past(state.memory, (), state.features), Past(state.memory, state.confidence, ()), None)
    for past in forgotten:  # every part of the state matters
        assert not torch.allclose(second, peer.step(clip[:, 1], past)[0])


@torch.no_grad()
@pytest.mark.parametrize("name", ["viws-net", "astp-net-t"])
def test_neighbouring_frames_matter(name: str) -> None:
    peer = shaken(name)
    clip = moving(peer.config.window)
    other = clip.clone()
    other[:, -1] = 1 - other[:, -1]
    assert not torch.allclose(peer(clip), peer(other), atol=1e-6)


def test_small_frames_are_padded_to_what_a_neighbourhood_needs() -> None:
    sides = {"t": 72, "s": 104, "b": 72}
    for size, side in sides.items():
        with torch.device("meta"):
            peer = build_peer(f"astp-net-{size}")
            assert peer.pad(torch.zeros(1, 3, 3, 16, 130)).shape[-2:] == (side, 132)
