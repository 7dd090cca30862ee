"""How often bfloat16 on a GPU drafts another token by the cached path than by the training one.

Decoding drafts block by block over caches with plain attention, training all blocks at once
with compiled flex attention: the same sums in another order. gpu_bench.py runs it in a
process of its own, on the drafter of the checkpoint folder in $PARITY_DRAFTER
(bench/trainer/story.py makes one).
"""

import os
from pathlib import Path
from typing import Any


def parity() -> dict[str, Any]:
    """Slots that differ, and the gap of the two highest logits there and everywhere."""
    import torch

    from trainer.corpus import Document
    from trainer.drafter import start_compilers
    from trainer.restore import restore
    from trainer.speculate import Chooser, decode
    from trainer.walk import Sizes, document_features, logits_everywhere

    start_compilers()
    found = restore(Path(os.environ["PARITY_DRAFTER"]), ends_only=False)
    pair, cuda = found.pair, torch.device("cuda")
    pair.target.decoder.to(cuda, torch.bfloat16)
    pair.drafter.to(cuda, torch.bfloat16)
    pair.drafter.compile_layers()
    prompts = [list(range(32 + i, 96 + i)) for i in range(24)]
    slots = different = 0
    gaps, everywhere = list[float](), list[float]()
    for number, prompt in enumerate(prompts):
        session, trace = decode(pair, prompt, 120, Chooser(temperature=0.7, seed=number))
        document = Document(tokens=tuple(session.tokens), prompt=len(prompt), looped=False)
        sizes = Sizes(length=192, anchors=64)
        features = document_features(pair, document, sizes)
        wanted = [
            row for x in logits_everywhere(pair, document, sizes, features) for row in _two(x)
        ]
        for anchor, drafted in zip(trace.anchors, trace.drafts, strict=True):
            for token, (best, gap) in zip(drafted, wanted[anchor - len(prompt)], strict=True):
                slots += 1
                everywhere.append(gap)
                if token != best:
                    different += 1
                    gaps.append(gap)
    everywhere.sort()
    return {
        "slots": slots, "different": different, "rate": different / slots,
        "gap_median": everywhere[len(everywhere) // 2],
        "gap_where_different": sorted(round(gap, 3) for gap in gaps)[-20:],
    }  # fmt: skip


def _two(logits: Any) -> Any:
    """Of each block and slot the token with the highest logit, and its lead."""
    values, tokens = logits.float().topk(2, dim=-1)
    lead = (values[..., 0] - values[..., 1]).tolist()
    return [
        list(zip(row, gaps, strict=True))
        for row, gaps in zip(tokens[..., 0].tolist(), lead, strict=True)
    ]
