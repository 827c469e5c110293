# SPDX-License-Identifier: Apache-2.0
"""demi's C interface as ctypes has it: structures and callbacks.

Written by tools/gen/gen_python.py from the public headers; not to be changed by hand.
"""

from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double,
                    c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p, sizeof)
from typing import Any


class Sized(Structure):
    """A structure that begins with its size, with what its INIT macro says."""

    _defaults: dict[str, Any] = {}

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"size": sizeof(self), **self._defaults})
        for name, value in given.items():
            self.put(name, value)

    def put(self, name: str, value: Any) -> None:
        """Sets a member. ctypes cuts integers without a word, and does not say which member is wrong."""
        from ._errors import UsageError
        try:
            setattr(self, name, value)
        except TypeError as error:
            raise UsageError(f"{name}: {error}", operand=name) from None
        if type(value) is int and type(getattr(self, name)) is int and getattr(self, name) != value:
            raise UsageError(f"{name}: {value} is outside the range of its type", operand=name)


class DemiError(Sized):
    size: int
    status: int
    message: bytes
    hint: bytes
    file: bytes
    graph: bytes
    node: bytes
    op_type: bytes
    operand: bytes
    what: bytes
    expected: bytes
    actual: bytes


class DemiLoadOptions(Sized):
    size: int
    allow_hardlinks: bool
    data_root: bytes | None
    name: bytes | None
    data_size: Any
    data_read: Any
    data_user: int | None


class DemiSaveOptions(Sized):
    size: int
    format: int
    data_name: bytes | None
    data: Any
    data_user: int | None


class DemiPassOption(Sized):
    size: int
    name: bytes | None
    otherwise: bytes | None
    help: bytes | None
    takes: bytes


class DemiRunOptions(Sized):
    size: int
    verify_each: bool
    text: Any
    text_user: int | None
    progress: Any
    progress_user: int | None
    print_after: bytes | None
    passes: int | None
    artifact: Any
    artifact_user: int | None
    unchecked: bool
    runs_here: bool
    rounded: int | None


class DemiCompileOptions(Sized):
    size: int
    numerics: int
    keep_values: bool
    memory_budget: int
    small: bool
    isa: int
    for_device: bool


class DemiConvertOptions(Sized):
    size: int
    to: int
    io: int
    allow_unmatched: bool
    keep: Any
    keep_count: int
    keep_ops: Any
    keep_op_count: int
    input_dtypes: Any
    input_dtype_count: int
    run: Any
    policy: bytes | None
    parameters: int
    overflow: int
    only: Any
    only_count: int
    low_ops: Any
    low_op_count: int
    fp32_ops: Any
    fp32_op_count: int
    follow_ops: Any
    follow_op_count: int
    widest_ops: Any
    widest_op_count: int
    fp32_when: Any
    fp32_when_count: int
    low_inputs: Any
    low_input_count: int
    low_outputs: Any
    low_output_count: int
    declared_ops: Any
    declared_op_count: int
    opset: int
    placement: int
    ranges: Any
    range_count: int
    range_margin: int
    before: bytes | None
    after: bytes | None
    activations: int
    symmetric: bool
    block: int
    values: Any
    value_count: int
    weights: Any
    weight_count: int
    fold: bool
    simplify: bool
    freeze_inputs: bool
    fed: Any
    fed_count: int
    rest: int
    source: int
    runtime: int
    rounding: int
    equalize: int
    channel_scales: Any
    channel_scale_count: int


class DemiSimplifyOptions(Sized):
    size: int
    inexact: bool
    shapes: Any
    shape_count: int
    dims: Any
    dim_count: int
    run: Any
    strip_doc_strings: bool
    freeze_inputs: bool
    fed: Any
    fed_count: int


class DemiReportTotals(Structure):
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int
    casts_added: int
    casts_removed: int
    casts_fused: int
    casts_remaining: int
    overflow: int
    underflow: int
    subnormal: int
    rewrites: int
    seconds: float
    ir_before: int
    ir_after: int
    run_bytes_converted: int
    run_bytes_fp32: int
    run_cost: int
    run_bytes_stored: int


class DemiReportNode(Structure):
    name: bytes | None
    op_type: bytes | None
    domain: bytes | None
    graph: bytes | None
    dtype: bytes | None
    reason: bytes | None
    kind: bytes | None


class DemiReportTensor(Structure):
    name: bytes | None
    fate: int
    count: int
    overflow: int
    underflow: int
    subnormal: int
    max_abs: float
    min_abs: float


class DemiReportRow(Structure):
    name: bytes | None
    text_before: bytes | None
    text_after: bytes | None
    before: int
    after: int
    seconds: float


class DemiString(Structure):
    size: int
    text: bytes | None


class DemiData(Sized):
    size: int
    kind: int
    dtype: int
    rank: int
    dims: Any
    data: int | None
    count: int
    items: Any


class DemiPlanIo(Sized):
    size: int
    name: bytes | None
    kind: int
    optional: bool
    dtype: int
    has_rank: bool
    rank: int
    dims: Any
    has_default: bool
    dim_names: Any


class DemiAllocator(Sized):
    size: int
    allocate: Any
    release: Any
    user: int | None


class DemiContextOptions(Sized):
    size: int
    threads: int
    memory_budget: int
    seed: int
    step_limit: int
    kernels: int
    time_limit: float
    small: bool
    device: bytes | None
    go_on: Any
    go_on_user: int | None
    allocator: Any
    device_memory: int
    device_stream: int | None
    device_steps: bool
    tf32: bool


class DemiDeviceCounts(Sized):
    size: int
    launches: int
    bytes: int
    uploads: int
    downloads: int
    upload_bytes: int
    download_bytes: int
    replays: int
    tf32: int
    memory: int
    memory_peak: int
    declined: int
    without: int


class DemiTuneOptions(Sized):
    size: int
    seconds: float


class DemiTuned(Sized):
    size: int
    kinds: int
    changed: int
    steps: int
    runs: int
    before: float
    after: float
    seconds: float
    ended_early: bool


class DemiStep(Sized):
    size: int
    number: int
    depth: int
    name: bytes | None
    domain: bytes | None
    op_type: bytes | None
    kernel: bytes | None
    start: float
    seconds: float
    input_count: int
    output_count: int
    input_names: Any
    output_names: Any
    inputs: Any
    outputs: Any
    multiplications: float


class DemiSource(Sized):
    size: int
    path: bytes | None
    load: Any
    open: Any
    open_user: int | None


class DemiDifference(Sized):
    size: int
    kind: int
    change: int
    graph: bytes | None
    name: bytes | None
    op_type: bytes | None
    what: bytes | None
    a: bytes | None
    b: bytes | None


class DemiDiffOptions(Sized):
    size: int
    strict: bool


class DemiAgainstOptions(Sized):
    size: int
    made_by: Any


class DemiInputValue(Structure):
    set: int
    name: bytes | None
    value: Any


class DemiInputOptions(Sized):
    size: int
    values: Any
    value_count: int
    data: bytes | None
    files: Any
    file_count: int
    shapes: Any
    shape_count: int
    dims: Any
    dim_count: int
    random: bool
    seed: int
    sets: int
    hint: bytes | None


class DemiDistance(Structure):
    mismatch: bytes | None
    count: int
    beyond: int
    worst: int
    worst_got: float
    worst_want: float
    special: int
    broken: int
    max_abs: float
    mean_abs: float
    scale: float
    error: float
    ulp: float
    ulp_of: int
    sqnr: float
    cosine: float


class DemiLimit(Sized):
    size: int
    error: float
    least: float
    _defaults = {"error": -1, "least": -1}


class DemiPick(Structure):
    node: bytes | None
    op_type: bytes | None
    count: int
    same: int
    margin: float


class DemiTrialOptions(Sized):
    size: int
    inputs: Any
    compile: Any
    context: Any
    progress: Any
    progress_user: int | None
    part: int
    parts: int
    combine: Any
    combine_user: int | None


class DemiVerdictTotals(Structure):
    error: float
    broken: bool
    stopped: bool
    beyond: int
    sets: int
    trials: int
    assumed: bytes | None
    limit: DemiLimit


class DemiOutputError(Structure):
    name: bytes | None
    set: bytes | None
    diff: DemiDistance


class DemiBroken(Structure):
    node: bytes | None
    op_type: bytes | None
    value: bytes | None
    text: bytes | None
    dtype: int
    nan: bool
    cast: bool
    reached: float


class DemiCalibrateOptions(Sized):
    size: int
    ends: bool
    method: int
    percentile: float
    levels: int
    symmetric: bool
    convert: Any
    equalizes: bool
    type: int
    _defaults = {"percentile": 99.999, "levels": 256}


class DemiRange(Structure):
    name: bytes | None
    most: float
    low: float
    high: float
    axis: int
    mean_count: int
    means: Any
    errors: Any


class DemiRoundedItem(Structure):
    name: bytes | None
    nearest: float
    chosen: float


class DemiCompareOptions(Sized):
    size: int
    inputs: Any
    compile: Any
    context: Any
    limit: Any
    progress: Any
    progress_user: int | None


class DemiComparisonTotals(Structure):
    beyond: bool
    values_beyond: int
    assumed: bytes | None
    limit: DemiLimit
    quantized: bool
    sets: int
    set: int
    set_name: bytes | None


class DemiComparedValue(Structure):
    name: bytes | None
    type: bytes | None
    node: bytes | None
    op_type: bytes | None
    dtype: int
    dtype_reference: int
    diff: DemiDistance


class DemiAdvice(Structure):
    state: int
    error: float
    node: bytes | None
    op_type: bytes | None
    value: bytes | None
    type: bytes | None
    before: float
    diff: DemiDistance


class DemiSearchOptions(Sized):
    size: int
    convert: Any
    candidates: Any
    candidate_count: int
    supported: bytes | None
    all_candidates: bool
    inputs: Any
    context: Any
    metric: int
    labels: Any
    label_count: int
    score: Any
    score_user: int | None
    target: float
    drop: float
    most_cost: float
    cost: int
    algorithm: int
    reverse: bool
    fewer_conversions: bool
    cache_bytes: int
    probes: int
    evaluations: int
    seconds: float
    journal: bytes | None
    part: int
    parts: int
    combine: Any
    combine_user: int | None
    progress: Any
    progress_user: int | None
    probe_inputs: Any
    sensitivity: int
    calibration_inputs: Any
    holdout_inputs: Any
    holdout: float
    holdout_labels: Any
    holdout_label_count: int
    holdout_score: Any
    holdout_score_user: int | None
    quantize_outputs: bool
    sensitivity_score: Any
    sensitivity_user: int | None
    score_name: bytes | None
    sensitivity_name: bytes | None
    bits: float
    _defaults = {"target": float("nan"), "drop": float("nan"), "most_cost": float("nan"), "holdout": float("nan"), "bits": float("nan")}


class DemiSearchPoint(Structure):
    score: float
    cost: float
    bitops: float
    activation_bytes: float
    weight_bytes: float
    seconds: float
    measured: float
    boundaries: int
    candidates: Any
    feasible: bool
    on_front: bool
    score_error: float


class DemiSearchTotals(Structure):
    outcome: int
    target: float
    float_score: float
    evaluations: int
    replays: int
    replayed: float
    seconds: float
    float_seconds: float
    best: int
    widest: int
    assumed: bytes | None
    groups_seconds: float
    holdout_score: float
    holdout_low: float
    holdout_high: float
    holdout_target: float
    confidence: float
    holdout_tests: int
    holdout_tests_most: int
    aim: float
    calibration_sets: int
    selection_sets: int
    holdout_sets: int
    holdout_samples: int
    holdout_rows: bool
    holdout: int
    runtime: int


class DemiSearchGroup(Structure):
    name: bytes | None
    node: bytes | None
    op_type: bytes | None
    values: int
    weights: int
    value_names: Any
    weight_names: Any
    multiplications: float
    elements: float
    weight_elements: float
    noise: Any
    candidate: int
    reason: bytes | None


class DemiSearchEntry(Structure):
    group: int
    candidate: int
    score: float
    reduction: float


class DemiSearchPlace(Structure):
    relative: float
    score: float
    group: int
    candidate: int
    entry: int


class DemiTrainingOptions(Sized):
    size: int
    loss: int
    optimizer: int
    rate: float
    momentum: float
    decay: float
    scale: float
    dynamic_scale: bool
    output: bytes | None
    freeze: Any
    freeze_count: int
    decompose: bool
    run: Any
    _defaults = {"rate": 0.01, "momentum": 0.9}


class DemiTrainStep(Sized):
    size: int
    step: int
    steps: int
    epoch: int
    loss: float
    scale: float
    seconds: float
    samples_per_second: float
    losses: Any
    loss_count: int


class DemiTrainOptions(Sized):
    size: int
    names: Any
    data: Any
    data_count: int
    steps: int
    epochs: int
    batch: int
    seed: int
    in_order: bool
    rate: Any
    compile: Any
    context: Any
    progress: Any
    progress_user: int | None
    every: int
    save: Any
    save_user: int | None
    keep_weights: bool


class DemiTrained(Sized):
    size: int
    steps: int
    loss: float
    seconds: float
    samples_per_second: float
    ended_early: bool


DemiDataSizeFn = CFUNCTYPE(
    c_int64, c_void_p, c_char_p)
DemiDataReadFn = CFUNCTYPE(
    c_bool, c_void_p, c_char_p, c_uint64, c_void_p, c_uint64)
DemiReadFn = CFUNCTYPE(
    c_int64, c_void_p, c_void_p, c_size_t)
DemiWriteFn = CFUNCTYPE(
    c_bool, c_void_p, c_void_p, c_size_t)
DemiProgressFn = CFUNCTYPE(
    c_bool, c_void_p, c_char_p, c_size_t, c_size_t)
DemiPlanWriteFn = CFUNCTYPE(
    c_bool, c_void_p, c_void_p, c_size_t)
DemiStepFn = CFUNCTYPE(
    None, c_void_p, POINTER(DemiStep))
DemiOpenFn = CFUNCTYPE(
    c_int, c_void_p, POINTER(c_void_p), POINTER(DemiError))
DemiDiffFn = CFUNCTYPE(
    c_bool, c_void_p, POINTER(DemiDifference))
DemiAgainstFn = CFUNCTYPE(
    c_bool, c_void_p, c_char_p)
DemiCombineFn = CFUNCTYPE(
    c_bool, c_void_p, POINTER(c_uint64), c_size_t)
DemiScoreFn = CFUNCTYPE(
    c_int, c_void_p, c_void_p, POINTER(c_double), POINTER(DemiError))
DemiTrainFn = CFUNCTYPE(
    c_bool, c_void_p, POINTER(DemiTrainStep))
DemiTrainSaveFn = CFUNCTYPE(
    c_bool, c_void_p, c_void_p, c_uint64)
DemiPluginEntry = CFUNCTYPE(
    c_void_p, c_void_p)

DemiError._fields_ = [
    ("size", c_uint32), ("status", c_int), ("message", c_char * 2048), ("hint", c_char * 320),
    ("file", c_char * 1024), ("graph", c_char * 160), ("node", c_char * 160),
    ("op_type", c_char * 64), ("operand", c_char * 160), ("what", c_char * 320),
    ("expected", c_char * 200), ("actual", c_char * 200)]
DemiLoadOptions._fields_ = [
    ("size", c_uint32), ("allow_hardlinks", c_bool), ("data_root", c_char_p), ("name", c_char_p),
    ("data_size", DemiDataSizeFn), ("data_read", DemiDataReadFn), ("data_user", c_void_p)]
DemiSaveOptions._fields_ = [
    ("size", c_uint32), ("format", c_int), ("data_name", c_char_p), ("data", DemiWriteFn),
    ("data_user", c_void_p)]
DemiPassOption._fields_ = [
    ("size", c_uint32), ("name", c_char_p), ("otherwise", c_char_p), ("help", c_char_p),
    ("takes", c_char * 320)]
DemiRunOptions._fields_ = [
    ("size", c_uint32), ("verify_each", c_bool), ("text", DemiWriteFn), ("text_user", c_void_p),
    ("progress", DemiProgressFn), ("progress_user", c_void_p), ("print_after", c_char_p),
    ("passes", c_void_p), ("artifact", DemiWriteFn), ("artifact_user", c_void_p),
    ("unchecked", c_bool), ("runs_here", c_bool), ("rounded", c_void_p)]
DemiCompileOptions._fields_ = [
    ("size", c_uint32), ("numerics", c_int), ("keep_values", c_bool), ("memory_budget", c_uint64),
    ("small", c_bool), ("isa", c_int), ("for_device", c_bool)]
DemiConvertOptions._fields_ = [
    ("size", c_uint32), ("to", c_int), ("io", c_int), ("allow_unmatched", c_bool),
    ("keep", POINTER(c_char_p)), ("keep_count", c_size_t), ("keep_ops", POINTER(c_char_p)),
    ("keep_op_count", c_size_t), ("input_dtypes", POINTER(c_char_p)),
    ("input_dtype_count", c_size_t), ("run", POINTER(DemiRunOptions)), ("policy", c_char_p),
    ("parameters", c_int), ("overflow", c_int), ("only", POINTER(c_char_p)),
    ("only_count", c_size_t), ("low_ops", POINTER(c_char_p)), ("low_op_count", c_size_t),
    ("fp32_ops", POINTER(c_char_p)), ("fp32_op_count", c_size_t),
    ("follow_ops", POINTER(c_char_p)), ("follow_op_count", c_size_t),
    ("widest_ops", POINTER(c_char_p)), ("widest_op_count", c_size_t),
    ("fp32_when", POINTER(c_char_p)), ("fp32_when_count", c_size_t),
    ("low_inputs", POINTER(c_char_p)), ("low_input_count", c_size_t),
    ("low_outputs", POINTER(c_char_p)), ("low_output_count", c_size_t),
    ("declared_ops", POINTER(c_char_p)), ("declared_op_count", c_size_t), ("opset", c_int64),
    ("placement", c_int), ("ranges", POINTER(c_char_p)), ("range_count", c_size_t),
    ("range_margin", c_int64), ("before", c_char_p), ("after", c_char_p), ("activations", c_int),
    ("symmetric", c_bool), ("block", c_int64), ("values", POINTER(c_char_p)),
    ("value_count", c_size_t), ("weights", POINTER(c_char_p)), ("weight_count", c_size_t),
    ("fold", c_bool), ("simplify", c_bool), ("freeze_inputs", c_bool), ("fed", POINTER(c_char_p)),
    ("fed_count", c_size_t), ("rest", c_int), ("source", c_int), ("runtime", c_int),
    ("rounding", c_int), ("equalize", c_int), ("channel_scales", POINTER(c_char_p)),
    ("channel_scale_count", c_size_t)]
DemiSimplifyOptions._fields_ = [
    ("size", c_uint32), ("inexact", c_bool), ("shapes", POINTER(c_char_p)),
    ("shape_count", c_size_t), ("dims", POINTER(c_char_p)), ("dim_count", c_size_t),
    ("run", POINTER(DemiRunOptions)), ("strip_doc_strings", c_bool), ("freeze_inputs", c_bool),
    ("fed", POINTER(c_char_p)), ("fed_count", c_size_t)]
DemiReportTotals._fields_ = [
    ("nodes_before", c_uint64), ("nodes_after", c_uint64), ("bytes_before", c_uint64),
    ("bytes_after", c_uint64), ("casts_added", c_uint64), ("casts_removed", c_uint64),
    ("casts_fused", c_uint64), ("casts_remaining", c_uint64), ("overflow", c_uint64),
    ("underflow", c_uint64), ("subnormal", c_uint64), ("rewrites", c_uint64),
    ("seconds", c_double), ("ir_before", c_int64), ("ir_after", c_int64),
    ("run_bytes_converted", c_uint64), ("run_bytes_fp32", c_uint64), ("run_cost", c_uint64),
    ("run_bytes_stored", c_uint64)]
DemiReportNode._fields_ = [
    ("name", c_char_p), ("op_type", c_char_p), ("domain", c_char_p), ("graph", c_char_p),
    ("dtype", c_char_p), ("reason", c_char_p), ("kind", c_char_p)]
DemiReportTensor._fields_ = [
    ("name", c_char_p), ("fate", c_int), ("count", c_uint64), ("overflow", c_uint64),
    ("underflow", c_uint64), ("subnormal", c_uint64), ("max_abs", c_double), ("min_abs", c_double)]
DemiReportRow._fields_ = [
    ("name", c_char_p), ("text_before", c_char_p), ("text_after", c_char_p), ("before", c_uint64),
    ("after", c_uint64), ("seconds", c_double)]
DemiString._fields_ = [
    ("size", c_uint64), ("text", c_char_p)]
DemiData._fields_ = [
    ("size", c_uint32), ("kind", c_int), ("dtype", c_int32), ("rank", c_uint32),
    ("dims", POINTER(c_int64)), ("data", c_void_p), ("count", c_size_t),
    ("items", POINTER(DemiData))]
DemiPlanIo._fields_ = [
    ("size", c_uint32), ("name", c_char_p), ("kind", c_int), ("optional", c_bool),
    ("dtype", c_int32), ("has_rank", c_bool), ("rank", c_uint32), ("dims", POINTER(c_int64)),
    ("has_default", c_bool), ("dim_names", POINTER(c_char_p))]
DemiAllocator._fields_ = [
    ("size", c_uint32), ("allocate", CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)),
    ("release", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)), ("user", c_void_p)]
DemiContextOptions._fields_ = [
    ("size", c_uint32), ("threads", c_uint32), ("memory_budget", c_uint64), ("seed", c_uint64),
    ("step_limit", c_uint64), ("kernels", c_int), ("time_limit", c_double), ("small", c_bool),
    ("device", c_char_p), ("go_on", CFUNCTYPE(c_bool, c_void_p)), ("go_on_user", c_void_p),
    ("allocator", POINTER(DemiAllocator)), ("device_memory", c_uint64),
    ("device_stream", c_void_p), ("device_steps", c_bool), ("tf32", c_bool)]
DemiDeviceCounts._fields_ = [
    ("size", c_uint32), ("launches", c_uint64), ("bytes", c_uint64), ("uploads", c_uint64),
    ("downloads", c_uint64), ("upload_bytes", c_uint64), ("download_bytes", c_uint64),
    ("replays", c_uint64), ("tf32", c_uint64), ("memory", c_uint64), ("memory_peak", c_uint64),
    ("declined", c_uint64), ("without", c_uint64)]
DemiTuneOptions._fields_ = [
    ("size", c_uint32), ("seconds", c_double)]
DemiTuned._fields_ = [
    ("size", c_uint32), ("kinds", c_size_t), ("changed", c_size_t), ("steps", c_size_t),
    ("runs", c_size_t), ("before", c_double), ("after", c_double), ("seconds", c_double),
    ("ended_early", c_bool)]
DemiStep._fields_ = [
    ("size", c_uint32), ("number", c_uint32), ("depth", c_uint32), ("name", c_char_p),
    ("domain", c_char_p), ("op_type", c_char_p), ("kernel", c_char_p), ("start", c_double),
    ("seconds", c_double), ("input_count", c_size_t), ("output_count", c_size_t),
    ("input_names", POINTER(c_char_p)), ("output_names", POINTER(c_char_p)),
    ("inputs", POINTER(DemiData)), ("outputs", POINTER(DemiData)), ("multiplications", c_double)]
DemiSource._fields_ = [
    ("size", c_uint32), ("path", c_char_p), ("load", POINTER(DemiLoadOptions)),
    ("open", DemiOpenFn), ("open_user", c_void_p)]
DemiDifference._fields_ = [
    ("size", c_uint32), ("kind", c_int), ("change", c_int), ("graph", c_char_p),
    ("name", c_char_p), ("op_type", c_char_p), ("what", c_char_p), ("a", c_char_p),
    ("b", c_char_p)]
DemiDiffOptions._fields_ = [
    ("size", c_uint32), ("strict", c_bool)]
DemiAgainstOptions._fields_ = [
    ("size", c_uint32), ("made_by", POINTER(DemiConvertOptions))]
DemiInputValue._fields_ = [
    ("set", c_size_t), ("name", c_char_p), ("value", POINTER(DemiData))]
DemiInputOptions._fields_ = [
    ("size", c_uint32), ("values", POINTER(DemiInputValue)), ("value_count", c_size_t),
    ("data", c_char_p), ("files", POINTER(c_char_p)), ("file_count", c_size_t),
    ("shapes", POINTER(c_char_p)), ("shape_count", c_size_t), ("dims", POINTER(c_char_p)),
    ("dim_count", c_size_t), ("random", c_bool), ("seed", c_uint64), ("sets", c_size_t),
    ("hint", c_char_p)]
DemiDistance._fields_ = [
    ("mismatch", c_char_p), ("count", c_uint64), ("beyond", c_uint64), ("worst", c_uint64),
    ("worst_got", c_double), ("worst_want", c_double), ("special", c_uint64), ("broken", c_uint64),
    ("max_abs", c_double), ("mean_abs", c_double), ("scale", c_double), ("error", c_double),
    ("ulp", c_double), ("ulp_of", c_int32), ("sqnr", c_double), ("cosine", c_double)]
DemiLimit._fields_ = [
    ("size", c_uint32), ("error", c_double), ("least", c_double)]
DemiPick._fields_ = [
    ("node", c_char_p), ("op_type", c_char_p), ("count", c_uint64), ("same", c_uint64),
    ("margin", c_double)]
DemiTrialOptions._fields_ = [
    ("size", c_uint32), ("inputs", POINTER(DemiInputOptions)),
    ("compile", POINTER(DemiCompileOptions)), ("context", POINTER(DemiContextOptions)),
    ("progress", DemiProgressFn), ("progress_user", c_void_p), ("part", c_size_t),
    ("parts", c_size_t), ("combine", DemiCombineFn), ("combine_user", c_void_p)]
DemiVerdictTotals._fields_ = [
    ("error", c_double), ("broken", c_bool), ("stopped", c_bool), ("beyond", c_size_t),
    ("sets", c_size_t), ("trials", c_size_t), ("assumed", c_char_p), ("limit", DemiLimit)]
DemiOutputError._fields_ = [
    ("name", c_char_p), ("set", c_char_p), ("diff", DemiDistance)]
DemiBroken._fields_ = [
    ("node", c_char_p), ("op_type", c_char_p), ("value", c_char_p), ("text", c_char_p),
    ("dtype", c_int32), ("nan", c_bool), ("cast", c_bool), ("reached", c_double)]
DemiCalibrateOptions._fields_ = [
    ("size", c_uint32), ("ends", c_bool), ("method", c_int), ("percentile", c_double),
    ("levels", c_uint32), ("symmetric", c_bool), ("convert", POINTER(DemiConvertOptions)),
    ("equalizes", c_bool), ("type", c_int)]
DemiRange._fields_ = [
    ("name", c_char_p), ("most", c_double), ("low", c_double), ("high", c_double),
    ("axis", c_int32), ("mean_count", c_size_t), ("means", POINTER(c_double)),
    ("errors", POINTER(c_double))]
DemiRoundedItem._fields_ = [
    ("name", c_char_p), ("nearest", c_double), ("chosen", c_double)]
DemiCompareOptions._fields_ = [
    ("size", c_uint32), ("inputs", POINTER(DemiInputOptions)),
    ("compile", POINTER(DemiCompileOptions)), ("context", POINTER(DemiContextOptions)),
    ("limit", POINTER(DemiLimit)), ("progress", DemiProgressFn), ("progress_user", c_void_p)]
DemiComparisonTotals._fields_ = [
    ("beyond", c_bool), ("values_beyond", c_size_t), ("assumed", c_char_p), ("limit", DemiLimit),
    ("quantized", c_bool), ("sets", c_size_t), ("set", c_size_t), ("set_name", c_char_p)]
DemiComparedValue._fields_ = [
    ("name", c_char_p), ("type", c_char_p), ("node", c_char_p), ("op_type", c_char_p),
    ("dtype", c_int32), ("dtype_reference", c_int32), ("diff", DemiDistance)]
DemiAdvice._fields_ = [
    ("state", c_int), ("error", c_double), ("node", c_char_p), ("op_type", c_char_p),
    ("value", c_char_p), ("type", c_char_p), ("before", c_double), ("diff", DemiDistance)]
DemiSearchOptions._fields_ = [
    ("size", c_uint32), ("convert", POINTER(DemiConvertOptions)),
    ("candidates", POINTER(c_char_p)), ("candidate_count", c_size_t), ("supported", c_char_p),
    ("all_candidates", c_bool), ("inputs", POINTER(DemiInputOptions)),
    ("context", POINTER(DemiContextOptions)), ("metric", c_int), ("labels", POINTER(c_int64)),
    ("label_count", c_size_t), ("score", DemiScoreFn), ("score_user", c_void_p),
    ("target", c_double), ("drop", c_double), ("most_cost", c_double), ("cost", c_int),
    ("algorithm", c_int), ("reverse", c_bool), ("fewer_conversions", c_bool),
    ("cache_bytes", c_uint64), ("probes", c_size_t), ("evaluations", c_size_t),
    ("seconds", c_double), ("journal", c_char_p), ("part", c_size_t), ("parts", c_size_t),
    ("combine", DemiCombineFn), ("combine_user", c_void_p), ("progress", DemiProgressFn),
    ("progress_user", c_void_p), ("probe_inputs", POINTER(DemiInputOptions)),
    ("sensitivity", c_int), ("calibration_inputs", POINTER(DemiInputOptions)),
    ("holdout_inputs", POINTER(DemiInputOptions)), ("holdout", c_double),
    ("holdout_labels", POINTER(c_int64)), ("holdout_label_count", c_size_t),
    ("holdout_score", DemiScoreFn), ("holdout_score_user", c_void_p), ("quantize_outputs", c_bool),
    ("sensitivity_score", DemiScoreFn), ("sensitivity_user", c_void_p), ("score_name", c_char_p),
    ("sensitivity_name", c_char_p), ("bits", c_double)]
DemiSearchPoint._fields_ = [
    ("score", c_double), ("cost", c_double), ("bitops", c_double), ("activation_bytes", c_double),
    ("weight_bytes", c_double), ("seconds", c_double), ("measured", c_double),
    ("boundaries", c_uint64), ("candidates", POINTER(c_uint8)), ("feasible", c_bool),
    ("on_front", c_bool), ("score_error", c_double)]
DemiSearchTotals._fields_ = [
    ("outcome", c_int), ("target", c_double), ("float_score", c_double), ("evaluations", c_size_t),
    ("replays", c_size_t), ("replayed", c_double), ("seconds", c_double),
    ("float_seconds", c_double), ("best", c_size_t), ("widest", c_size_t), ("assumed", c_char_p),
    ("groups_seconds", c_double), ("holdout_score", c_double), ("holdout_low", c_double),
    ("holdout_high", c_double), ("holdout_target", c_double), ("confidence", c_double),
    ("holdout_tests", c_size_t), ("holdout_tests_most", c_size_t), ("aim", c_double),
    ("calibration_sets", c_size_t), ("selection_sets", c_size_t), ("holdout_sets", c_size_t),
    ("holdout_samples", c_size_t), ("holdout_rows", c_bool), ("holdout", c_int),
    ("runtime", c_int)]
DemiSearchGroup._fields_ = [
    ("name", c_char_p), ("node", c_char_p), ("op_type", c_char_p), ("values", c_size_t),
    ("weights", c_size_t), ("value_names", POINTER(c_char_p)), ("weight_names", POINTER(c_char_p)),
    ("multiplications", c_double), ("elements", c_double), ("weight_elements", c_double),
    ("noise", POINTER(c_double)), ("candidate", c_size_t), ("reason", c_char_p)]
DemiSearchEntry._fields_ = [
    ("group", c_size_t), ("candidate", c_size_t), ("score", c_double), ("reduction", c_double)]
DemiSearchPlace._fields_ = [
    ("relative", c_double), ("score", c_double), ("group", c_size_t), ("candidate", c_size_t),
    ("entry", c_size_t)]
DemiTrainingOptions._fields_ = [
    ("size", c_uint32), ("loss", c_int), ("optimizer", c_int), ("rate", c_double),
    ("momentum", c_double), ("decay", c_double), ("scale", c_double), ("dynamic_scale", c_bool),
    ("output", c_char_p), ("freeze", POINTER(c_char_p)), ("freeze_count", c_size_t),
    ("decompose", c_bool), ("run", POINTER(DemiRunOptions))]
DemiTrainStep._fields_ = [
    ("size", c_uint32), ("step", c_uint64), ("steps", c_uint64), ("epoch", c_uint64),
    ("loss", c_double), ("scale", c_double), ("seconds", c_double),
    ("samples_per_second", c_double), ("losses", POINTER(c_double)), ("loss_count", c_size_t)]
DemiTrainOptions._fields_ = [
    ("size", c_uint32), ("names", POINTER(c_char_p)), ("data", POINTER(DemiData)),
    ("data_count", c_size_t), ("steps", c_uint64), ("epochs", c_uint64), ("batch", c_uint64),
    ("seed", c_uint64), ("in_order", c_bool), ("rate", POINTER(c_double)),
    ("compile", POINTER(DemiCompileOptions)), ("context", POINTER(DemiContextOptions)),
    ("progress", DemiTrainFn), ("progress_user", c_void_p), ("every", c_uint64),
    ("save", DemiTrainSaveFn), ("save_user", c_void_p), ("keep_weights", c_bool)]
DemiTrained._fields_ = [
    ("size", c_uint32), ("steps", c_uint64), ("loss", c_double), ("seconds", c_double),
    ("samples_per_second", c_double), ("ended_early", c_bool)]


class RawDemiData(Structure):
    size: int
    kind: int
    dtype: int
    rank: int
    dims: int | None
    data: int | None
    count: int
    items: int | None
    _fields_ = [
        ("size", c_uint32), ("kind", c_int), ("dtype", c_int32), ("rank", c_uint32),
        ("dims", c_void_p), ("data", c_void_p), ("count", c_size_t), ("items", c_void_p)]


class RawDemiString(Structure):
    size: int
    text: int | None
    _fields_ = [
        ("size", c_uint64), ("text", c_void_p)]

# Of DemiConvertOptions: what choices are called, and lists with their counts.
CHOICES: dict[str, dict[str, int]] = {
    "to": {
        "float16": 1, "fp16": 1, "half": 1, "bfloat16": 2, "bf16": 2, "int8": 3, "int8-weights": 4,
        "int4-weights": 5, "fp8-weights": 6, "float32": 7, "float": 7, "fp32": 7,
        "float16-weights": 8, "fp16-weights": 8, "bfloat16-weights": 9, "bf16-weights": 9,
        "fp8": 10, "mxfp8-weights": 11, "mxfp4-weights": 12, "nvfp4-weights": 13,
        "int2-weights": 14, "int8-dynamic": 15},
    "source": {
        "any": 1, "float32": 2, "float": 2, "fp32": 2},
    "rest": {
        "keep": 1, "float32": 2, "float": 2, "fp32": 2, "float16": 3, "fp16": 3, "half": 3,
        "bfloat16": 4, "bf16": 4, "int8-weights": 5},
    "runtime": {
        "any": 1, "onnxruntime": 2, "ort": 2, "openvino": 3, "tensorrt": 4, "trt": 4, "qnn": 5,
        "demi": 6},
    "activations": {
        "uint8": 1, "int8": 2, "uint16": 3, "int16": 4, "fp8": 5},
    "equalize": {
        "data": 1, "weights": 2, "never": 3, "all": 4},
    "placement": {
        "mincut": 1, "greedy": 2},
    "rounding": {
        "nearest": 1, "gptq": 2},
    "io": {
        "keep": 1, "low": 2},
    "parameters": {
        "offline": 1, "runtime": 2, "both": 3},
    "overflow": {
        "pin": 1, "clamp": 2, "inf": 3, "error": 4},
}
LISTS: dict[str, str] = {
    "channel_scales": "channel_scale_count", "low_ops": "low_op_count",
    "fp32_ops": "fp32_op_count", "follow_ops": "follow_op_count", "widest_ops": "widest_op_count",
    "fp32_when": "fp32_when_count", "keep": "keep_count", "keep_ops": "keep_op_count",
    "only": "only_count", "declared_ops": "declared_op_count", "input_dtypes": "input_dtype_count",
    "ranges": "range_count", "values": "value_count", "weights": "weight_count",
    "low_inputs": "low_input_count", "low_outputs": "low_output_count"}
