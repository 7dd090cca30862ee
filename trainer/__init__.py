"""A trainer for DFlash drafters: block diffusion drafting for speculative decoding.

It is shipped to a container alone, needs torch there and nothing of its siblings, and
meets the daemon in text only (docs/run-contract.md). Read in this order:

    config      what a run is asked to do; configfile reads it from TOML
    targets     the frozen model: shipped, pretrained, or a Hugging Face folder (hf, words)
    corpus      text -> prompts -> answers by the target -> rows
    decoder     the frozen target: features, and the answers themselves
    blocks      anchors, noise, labels: which block predicts what
    masks       which key a block's query may see
    drafter     the trained model: context features injected as keys and values
    headloss    the weighted loss through the frozen head, its gradient made in the forward
    optim       AdamW, its schedule and clipping; muon is the other optimizer
    walk        the acceptance length, walked block by block
    speculate   decoding with the drafter: the target's own tokens, sooner
    crew        who this process is among several, and what they agree on
    launch      the processes of one host: the first death ends all
    schedule    whose features are made when; ring and feed carry them, supply chooses
    prepare     everything before the first step
    train       all of it, in order
    restore     a checkpoint's drafter beside its target
    export      the drafter as SGLang and vLLM load it
"""
