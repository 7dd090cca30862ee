"""The mask as flex attention gets it: rule and tiles equal the table; no recompilation."""

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import create_mask

from trainer.drafter import Attend, DraftLayer, attend_dense, attend_flex, new_drafter
from trainer.layers import Shape, rope_table
from trainer.masks import TILE, dense_mask, flex_mask, flex_tables, spans_of, tile_tables

CPU = torch.device("cpu")
LENGTH, NUM_BLOCKS = 300, 40


def scene(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Anchors, keep and documents of two rows: packed, with padding and empty slots."""
    generator = torch.Generator().manual_seed(seed)
    doc = torch.full((2, LENGTH), -1)
    doc[0, :180], doc[0, 180:290], doc[1, :] = 0, 1, 0
    rows = [torch.randperm(290, generator=generator)[:NUM_BLOCKS].sort().values for _ in range(2)]
    anchor = torch.stack(rows)
    keep = torch.arange(NUM_BLOCKS).expand(2, -1) < torch.tensor([[31], [NUM_BLOCKS]])
    return anchor, keep, doc


@pytest.mark.parametrize("block", [8, 16, 12])
@pytest.mark.parametrize("window", [0, 50])
def test_tiles_say_what_the_table_says(block: int, window: int) -> None:
    """A tile is full where every pair is allowed, absent only where none is."""
    anchor, keep, doc = scene(1)
    table = dense_mask(anchor, keep, doc, block, window)[:, 0]
    partial, full = tile_tables(spans_of(anchor, keep, doc), LENGTH, block, window)
    covered = 0
    for row, q, k in torch.cartesian_prod(*(torch.arange(n) for n in full[:, 0].shape)).tolist():
        tile = table[row, q * TILE : (q + 1) * TILE, k * TILE : (k + 1) * TILE]
        assert not (partial[row, 0, q, k] and full[row, 0, q, k])
        if full[row, 0, q, k]:
            assert tile.all()
            covered += 1
        elif not partial[row, 0, q, k]:
            assert not tile.any()
    assert covered > 0 or window


@pytest.mark.parametrize("window", [0, 50])
def test_the_rule_of_flex_attention_equals_the_table(window: int) -> None:
    """Every pair, with packing, empty slots and a window."""
    anchor, keep, doc = scene(2)
    tables = flex_tables(anchor, keep, doc, 8, window)
    mask = flex_mask(tables, length=LENGTH, block=8, window=window)
    queries = NUM_BLOCKS * 8
    table = create_mask(mask.mask_mod, 2, 1, queries, LENGTH + queries, device="cpu")
    assert torch.equal(table, dense_mask(anchor, keep, doc, 8, window))


@pytest.fixture
def _clean_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_clean_dynamo")
def test_fresh_anchors_do_not_recompile_the_layer_and_give_the_dense_result() -> None:
    """Compiled once, the layer takes every step's mask, for every layer's weights."""
    shape = Shape(
        vocab=8, hidden=32, ffn=48, layers=0, heads=4, kv_heads=2, head_dim=16,
        rope_theta=100.0, eps=1e-6,
    )  # fmt: skip
    drafter = new_drafter(shape, 2, 1, seed=1, device=CPU, dtype=torch.float32)
    run = torch.compile(DraftLayer.attended, dynamic=False, fullgraph=True, backend="aot_eager")
    queries = NUM_BLOCKS * 8
    whole = rope_table(shape, torch.arange(LENGTH + queries)[None].expand(2, -1), torch.float32)
    block = (whole[0][:, :, LENGTH:], whole[1][:, :, LENGTH:])
    with torch.no_grad():
        for seed in range(4):
            anchor, keep, doc = scene(seed)
            tables = flex_tables(anchor, keep, doc, 8, 0)
            mask = flex_mask(tables, length=LENGTH, block=8, window=0)
            x, context = torch.randn(2, queries, 32), torch.randn(2, LENGTH, 32)
            dense = attend_dense(dense_mask(anchor, keep, doc, 8))
            for layer in drafter.stack():
                projected = layer.project(context, x)
                got = run(layer, x, *projected, block, whole, attend_flex(mask))
                wanted = layer.attended(x, *projected, block, whole, dense)
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


# dynamo looks for a gradient on every input, and hides the warning only where that is allowed.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.usefixtures("_clean_dynamo")
def test_all_layers_train_by_one_graph_and_as_without_it() -> None:
    """The first layer, whose input needs no gradient, does not compile a graph of its own."""
    shape = Shape(
        vocab=8, hidden=32, ffn=48, layers=0, heads=4, kv_heads=2, head_dim=16,
        rope_theta=100.0, eps=1e-6,
    )  # fmt: skip
    anchor, keep, doc = scene(1)
    attend: Attend = attend_dense(dense_mask(anchor, keep, doc, 8))
    noise, features = torch.randn(2, NUM_BLOCKS * 8, 32), torch.randn(2, LENGTH, 32)
    context = torch.arange(LENGTH).expand(2, -1)
    slots = torch.arange(NUM_BLOCKS * 8).expand(2, -1)
    grads = []
    for compiled in (False, True):
        drafter = new_drafter(shape, 3, 1, seed=1, device=CPU, dtype=torch.float32)
        if compiled:
            drafter.compile_layers("aot_eager")
        drafter(noise, features, context, slots, attend).square().mean().backward()
        grads.append([parameter.grad for parameter in drafter.parameters()])
    assert counters["stats"]["unique_graphs"] == 1
    for plain, traced in zip(*grads, strict=True):
        if plain is not None:  # the last norm is the caller's
            torch.testing.assert_close(traced, plain, rtol=1e-3, atol=1e-7)
