"""Signatures of torch.compile, FX and Triton."""

from orchestrator.core.detect.signatures.model import Signature, signature
from orchestrator.core.findings import Role
from orchestrator.core.model import Severity

FX_SENTENCE = r"using FX to symbolically trace a dynamo-optimized function"
TRACER_FRAMES = (
    r"fx/_symbolic_trace\.py:(?:trace|symbolic_trace|_trace)$",
    r"proxy_tensor\.py:(?:trace|_trace_inner|dispatch_trace|make_fx|wrapped)$",
    r":(?:symbolic_trace|make_fx|prepare_\w*fx|convert_\w*fx|capture_pre_autograd_graph)$",
    r"quantize_fx\.py:",
)
"""Functions that trace while they are on the stack. `module_call_wrapper` is none of them: a trace
in another thread patches nn.Module.__call__ for all."""
_RACE_STEPS = (
    "Run one process per GPU (spawn) and let one thread of it call compiled code: the only"
    " layout that is right by construction. This project's trainer does so by itself"
    " (`--layout processes`, the default).",
    "Until then: hold one readers/writer lock around every compiled call, exclusive for a"
    " shape, device, dtype or grad mode not seen before.",
    "Test with a cold compile cache: a warm one skips the trace and hides the race.",
    "Does not help: error_on_nested_fx_trace=False (runs flex attention dense, many times"
    " slower, and can leave the flag stuck), a warm-up on one GPU (the device is guarded,"
    " the next one recompiles), a lock around first calls only (any later recompile kills a"
    " neighbour), a newer torch (2.14 makes the flag thread-local, other state is not).",
)
_RACE_LINKS = (
    "https://github.com/pytorch/pytorch/issues/126024",
    "https://github.com/pytorch/pytorch/issues/118260",
    "https://github.com/pytorch/pytorch/issues/105943",
    "https://github.com/pytorch/pytorch/issues/168042",
    "https://github.com/pytorch/pytorch/pull/168999",
    "https://github.com/pytorch/pytorch/pull/187589",
)

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="fx_trace_nested",
        title="A compiled function was called from inside an FX trace of the same stack",
        cause=(
            "FX (make_fx, symbolic_trace, FX quantization) traced code that calls a function which"
            " torch.compile had already wrapped, in one thread. It fails every time and is no race."
        ),
        next_steps=(
            "Trace the original function: pass the uncompiled module, or compile after tracing.",
            "If the compiled part may stay a leaf, mark it so for the tracer, or wrap it in"
            " torch.compiler.disable.",
            "Do not set error_on_nested_fx_trace=False to silence it: the compiled function then"
            " runs eagerly without a word.",
        ),
        family="fx_trace",
        references=(
            "https://github.com/pytorch/pytorch/pull/87797",
            "https://github.com/pytorch/pytorch/pull/179836",
        ),
        says=(FX_SENTENCE,),
        frames=TRACER_FRAMES,
    ),
    signature(
        id="fx_trace_race",
        title="torch.compile race: one thread called a compiled function while another was tracing",
        cause=(
            'The flag that says "FX is tracing" belongs to the process in torch up to 2.13, so a'
            " compile in one thread makes an innocent call of an already compiled function in another"
            " thread raise. The thread that died is the victim; the one that was compiling is the cause."
        ),
        next_steps=_RACE_STEPS,
        transient=True,
        family="compile_thread_race",
        references=_RACE_LINKS,
        says=(
            FX_SENTENCE,
            r"CURRENT_PATCHER is None in finally block",
            r"_is_fx_tracing_flag.{0,60}(?:stuck|left)",
        ),
    ),
    signature(
        id="fx_trace_race",
        title="torch.compile race: two threads changed one graph while tracing",
        cause=(
            "torch 2.14 made the tracing flag thread-local, but parts of a trace are still shared by the"
            " process: a key that one thread keeps in a graph's metadata was removed by another."
        ),
        next_steps=_RACE_STEPS,
        transient=True,
        family="compile_thread_race",
        references=_RACE_LINKS,
        says=(r"^KeyError: 'custom'",),
        frames=(r"/torch/(?:fx|_functorch|_dynamo|_inductor)/",),
    ),
    signature(
        id="triton_error",
        title="Triton could not build or launch a kernel",
        cause=(
            "A Triton kernel asked for more on-chip shared memory or registers than the GPU has, or"
            " Triton's compiler failed on it. The memory named here is on the chip, not /dev/shm."
        ),
        next_steps=(
            "Use smaller blocks or fewer num_stages in the kernel's configuration.",
            "If the GPU is newer than the wheel: a Triton and ptxas that know it (TRITON_PTXAS_PATH).",
            "Keep the failing kernel's source from the cache folder before it is cleared.",
        ),
        references=(
            "https://github.com/triton-lang/triton/issues/8182",
            "https://github.com/pytorch/pytorch/issues/148551",
        ),
        types=(
            r"OutOfResources",
            r"PTXASError",
            r"triton\.\w[\w.]*\.CompilationError",
            r"triton\.\w[\w.]*\.\w+Error",
            r"CompileTimeAssertionFailure",
        ),
        says=(
            r"out of resource: (?:shared memory|threads|tensor memory)",
            r"OutOfResources: ",
            r"PTXAS error: ",
            r"PTXASError: ",
            r"ptxas fatal",
            r"Internal Triton PTX codegen error",
            r"is not defined for option 'gpu-name'",
            r"\d active drivers \(\[",
            r"triton\.compiler\.errors\.",
            r"Triton Error \[CUDA\]",
            r"No valid triton configs",
            r"Failed to (?:compile|run) triton",
            r"LLVM ERROR:.{0,200}(?:[Tt]riton|nvptx|sm_\d)",
        ),
        lines=(
            r"^ptxas fatal\s*:",
            r"^LLVM ERROR: ",
            r"PTXAS error: Internal Triton PTX codegen error",
        ),
        unless=(r"Ignoring this choice", r"[Aa]utotun\w+.{0,80}(?:skip|ignor)"),
    ),
    signature(
        id="silent_eager",
        title="Compiled code was given up for eager code, without an error",
        cause=(
            "torch.compile fell back to running the function eagerly: the recompile limit was reached,"
            " errors are suppressed, or a nested trace was let through. The run goes on, many times"
            " slower, and flex attention without its kernel holds the whole score matrix in memory."
        ),
        next_steps=(
            "Compare step time and peak memory with the last good run's.",
            "Raise torch._dynamo.config.recompile_limit and set fail_on_recompile_limit_hit=True, so"
            " that it fails loudly; bucket the shapes, dynamic=False.",
            "Keep suppress_errors off and error_on_nested_fx_trace on.",
        ),
        severity=Severity.WARNING,
        role=Role.DIAGNOSTIC,
        family="compile_thread_race",
        references=("https://github.com/pytorch/pytorch/pull/179836",),
        lines=(
            r"torch\._dynamo hit config\.(?:recompile|cache_size|accumulated_\w+)_limit",
            r"flex_attention called without torch\.compile\(\)",
            r"^WON'T CONVERT ",
        ),
    ),
    signature(
        id="dynamo_compile_error",
        title="torch.compile could not compile the code",
        cause=(
            'Dynamo, AOTAutograd or Inductor failed while it compiled the code named under "from user'
            ' code". It may be a gap of the compiler, or an error of the code itself seen with fake'
            " tensors."
        ),
        next_steps=(
            "Run the same step without torch.compile: if it fails there too, it is a bug of the code.",
            "Otherwise rerun with TORCHDYNAMO_VERBOSE=1 TORCH_LOGS=+dynamo, and try fullgraph=False.",
            "InvalidCxxCompiler: install a C++ compiler in the container.",
            "Keep suppress_errors off: it hides the failure and runs eagerly.",
        ),
        references=(
            "https://github.com/pytorch/pytorch/issues/177122",
            "https://github.com/pytorch/pytorch/issues/196208",
        ),
        types=(
            r"_dynamo\.exc\.\w+",
            r"_inductor\.exc\.\w+",
            r"BackendCompilerFailed",
            r"InternalTorchDynamoError",
            r"TorchRuntimeError",
            r"InductorError",
            r"LoweringException",
            r"CppCompileError",
            r"InvalidCxxCompiler",
            r"FailOnRecompileLimitHit",
            r"GuardOnDataDependentSymNode",
            r"ConstraintViolationError",
            r"DataDependentOutputException",
            r"DynamicOutputShapeException",
            r"UncapturedHigherOrderOpError",
            r"TorchDynamoException",
        ),
        says=(
            r"torch\._dynamo\.exc\.",
            r"torch\._inductor\.exc\.",
            r"Set TORCHDYNAMO_VERBOSE=1",
            r"backend='\w+' raised:",
            r"Could not guard on data-dependent expression",
        ),
        rests=(
            r"^Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace",
            r"^from user code:$",
            r"^For C\+\+ stack trace, run with TORCHDYNAMO_EXTENDED_DEBUG_CPP=1",
            r"^The error above occurred when calling torch\.export",
        ),
    ),
)
