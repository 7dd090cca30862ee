"""The useful arithmetic of a drafter step, for MFU: what the method needs, nothing recomputed.

Two operations a multiply-add. It counts and measures nothing.
"""

from trainer.layers import Shape


def step_flops(
    shape: Shape, *, layers: int, features: int, rows: int, context: int, blocks: int, block: int,
    pairs: float, supervised: int,
) -> float:  # fmt: skip
    """Operations of forward and backward over `rows` rows of `context` positions.

    `blocks` is the block slots of a row, `pairs` the allowed query-key pairs of the whole
    batch, `supervised` its supervised slots. The features, the embedding and the head are
    frozen, so nothing flows into them.
    """
    hidden = shape.hidden
    queries = blocks * block
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    fc = 2 * 2 * context * features * hidden * hidden
    layer = (
        4 * queries * hidden * q_width
        + 4 * (context + queries) * hidden * kv_width
        + 6 * queries * hidden * shape.ffn
    )
    frozen_input = 2 * queries * hidden * (q_width + 2 * kv_width)
    products = rows * (fc + 3 * layers * layer - frozen_input)
    attention = 3 * layers * 4 * q_width * pairs
    head = 2 * 2 * supervised * hidden * shape.vocab
    return float(products + attention + head)
