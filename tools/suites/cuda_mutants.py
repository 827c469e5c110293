# SPDX-License-Identifier: Apache-2.0
"""Breaks kernels/cuda and what runs it, one change at a time, and expects the tests of the fake device to
see each: barriers, waits and releases that are forgotten, overruns, wrong layouts and orders.

A kernel's change is compiled to PTX alone, a change of the host's code to an object that a copy of the
library is linked with; the tree stays as it is. Takes some minutes; needs a release build with nvcc.

    LD_LIBRARY_PATH=build/release/fake_cuda tools/suites/cuda_mutants.py [--only WORDS]
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent import futures

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: the text is in the file just once, or the first of several is meant."""

    what: str
    file: str
    old: str
    new: str
    families: str = ""  # of a header that kernels include
    shows: bool = False  # `demi show` tells


CU, RUN = "kernels/cuda/", "runtime/"
MUTANTS = (
    Mutant("a sum's barrier is missing", CU + "cuda_types.cuh",
           "if (lane == 0) room[warp] = x;\n    __syncthreads();\n    return warp_sum(",
           "if (lane == 0) room[warp] = x;\n    return warp_sum(", "norm"),
    Mutant("the barrier before a sum's room is used again is missing", CU + "cuda_types.cuh",
           "__syncthreads(); /* the last use of room is over */", "", "norm"),
    Mutant("a transposed tile is read too early", CU + "move.cu",
           "column + threadIdx.x];\n        __syncthreads();", "column + threadIdx.x];"),
    Mutant("a stage is read before it is there", CU + "tile.cu", "wait_groups<S::each - 1>();", ""),
    Mutant("a stage is read before what others copy is there", CU + "tile.cu", "meet_group<S>(group); /* the stage is there */", ""),
    Mutant("a stage is filled while others read it", CU + "tile.cu",
           "meet_group<S>(group); /* and was read */", ""),
    Mutant("z of a group without steps is not waited for", CU + "tile.cu", "end_group(); /* of z, where the group has no step */", ""),
    Mutant("groups meet in one barrier", CU + "tile.cu", '"r"(1 + group)', '"r"(1)'),
    Mutant("pixels' places are read before they are known", CU + "tile.cu",
           "    __syncthreads();\n    /* Where a stage's", "    /* Where a stage's"),
    Mutant("a warp's lines all lie as its first", CU + "tile.cu", "(first ^ i * lines % CHUNKS * 16)", "first"),
    Mutant("a block has room for a stage too few", CU + "cuda_tile.c", "(int)(steps < most ? steps : most);",
           "(int)(steps < most ? steps : most) - 1;"),
    Mutant("what nothing is behind is cut off at 0", CU + "tile.cu", "a.op == UNARY_RELU ? 0 : -INFINITY", "0"),
    Mutant("the last row of a thread is not finished", CU + "tile.cu", "if (first + k * S::step >= end) break;",
           "if (first + k * S::step + 1 >= end) break;"),
    Mutant("sums are written over stages that are read", CU + "tile.cu",
           "__syncthreads(); /* what was read of the stages gives way to sums */", ""),
    Mutant("keys are fetched over those that are read", CU + "attention.cu",
           "__syncthreads(); /* they were read */", ""),
    Mutant("a row's sums are written over the last one's", CU + "attention.cu",
           "if (r) __syncthreads(); /* the last row's sums were read */", ""),
    Mutant("lanes without keys leave the loop early", CU + "attention.cu",
           "const int64_t turns = (end - start + GROUPS - 1) / GROUPS;",
           "const int64_t turns = (end - start - group + GROUPS - 1) / GROUPS;"),
    Mutant("threads end before a barrier", CU + "reduce.cu",
           "__shared__ float room[WARP];\n    for (int64_t r",
           "__shared__ float room[WARP];\n    if (threadIdx.x >= a.reduced) return;\n    for (int64_t r"),
    Mutant("one element too many is moved", CU + "move.cu", "i < (n); ", "i <= (n);"),
    Mutant("a bound is off by one", CU + "pointwise.cu", "i < a.count", "i <= a.count"),
    Mutant("a gathered index is not checked", CU + "move.cu",
           "if (index >= 0 && index < a.size)", "if (index < a.size)"),
    Mutant("halves are rounded twice", CU + "cuda_types.cuh", "return __float2half_rn(x);",
           "return __float2half_rn(__bfloat162float(__float2bfloat16_rn(x)));", "pointwise"),
    Mutant("a fragment's halves are exchanged", CU + "mma.cuh", "{%8, %9}", "{%9, %8}", "tile attention"),
    Mutant("shared sums are counted before they are there", CU + "tile.cu",
           "    __threadfence();\n    __syncthreads(); /* all of the block's", "    __syncthreads(); /* all of the block's"),
    Mutant("a counter stays as it is", CU + "tile.cu", "if (threadIdx.x == 0) a.counters[tile] = 0;", ""),
    Mutant("the last block's part of the depth is left out", CU + "tile.cu", "z < gridDim.z; z++", "z + 1 < gridDim.z; z++"),
    Mutant("a cluster's sums are read before they are there", CU + "tile.cu",
           "    asm volatile(\"barrier.cluster.arrive.relaxed;\" ::: \"memory\");\n    asm volatile(\"barrier.cluster.wait.acquire;\" ::: \"memory\");", ""),
    Mutant("a cluster's sums have no fence behind them", CU + "tile.cu",
           "    asm volatile(\"fence.release.sync_restrict::shared::cta.cluster;\" ::: \"memory\");", ""),
    Mutant("a block ends while others read its sums", CU + "tile.cu",
           "    if (shared) asm volatile(\"barrier.cluster.wait.acquire;\" ::: \"memory\");", ""),
    Mutant("a block says too early that it has read others' sums", CU + "tile.cu", "    float y[MOST][FINISHED];\n",
           "    float y[MOST][FINISHED];\n    asm volatile(\"barrier.cluster.arrive.release;\" ::: \"memory\");"
           "\n    asm volatile(\"barrier.cluster.wait.acquire;\" ::: \"memory\");\n    if (rows.begin) return rows;\n"),
    Mutant("a block of a cluster is added twice", CU + "tile.cu", '"r"(at), "r"(z)', '"r"(at), "r"(z / 2)'),
    Mutant("rows of a cluster's tile are left out", CU + "tile.cu", "if (row < rows.end) store_pack",
           "if (row + 1 < rows.end) store_pack"),
    Mutant("groups' sums are read before they are there", CU + "tile.cu", "    __syncthreads();\n    Rows rows", "    Rows rows"),
    Mutant("a group's part of the depth is left out", CU + "tile.cu",
           "for (int g = 1; g < S::groups; g++) {", "for (int g = 1; g + 1 < S::groups; g++) {"),
    Mutant("groups that were joined are added again", CU + "tile.cu", "min(begin + each, ROWS), 1}", "min(begin + each, ROWS), 4}"),
    Mutant("z's last columns are not fetched", CU + "tile.cu", "pixel < a.pixels && filter < a.filters)",
           "pixel < a.pixels && filter + CHUNK < a.filters)"),
    Mutant("what is beside a window is multiplied by 0", CU + "tile.cu", "if (FEW) clear_beside(k);", ""),
    Mutant("pairs beside a window are multiplied by 0", CU + "tile.cu", "pair < a.pairs && ", ""),
    Mutant("rows of taps are not apart", CU + "tile.cu", "row * a.dilation[0] * a.x_row + first", "row * a.x_row + first"),
    Mutant("weights of pairs begin with the first tap", CU + "cuda_conv.c", "row_size + (k + shift) * channels + c", "row_size + k * channels + c"),
    Mutant("weights are brought near from before a block's part", CU + "tile.cu", "(begin + S::stages) * TILE_DEPTH;",
           "(begin + S::stages) * TILE_DEPTH - ((int64_t)1 << 40);"),
    Mutant("weights that are computed are fetched before they are", CU + "tile.cu", "if (!a.constant) wait_for_last();", ""),
    Mutant("a kernel reads what the last one still writes", CU + "norm.cu", "begin();\n    __shared__ float room[WARP];\n    const int64_t at",
           "__shared__ float room[WARP];\n    const int64_t at"),
    Mutant("pixels are fetched before they are there", CU + "tile.cu", "    wait_for_last();\n    int2 notes", "    int2 notes"),
    Mutant("a cluster is of half the blocks", CU + "cuda_tile.c", ".cluster = clusters && t.splits > 1 ? t.splits : 0",
           ".cluster = clusters && t.splits > 1 ? t.splits / 2 : 0"),
    Mutant("a norm's warp has the next row, too", CU + "norm.cu", "at = row * a.n;\n    if (row >= a.rows) return; /* whole warps */",
           "at = row * a.n + 4;\n    if (row >= a.rows) return; /* whole warps */"),
    Mutant("a mean of channels leaves out the last rows", CU + "reduce.cu", "if (first + k * WARPS >= a.reduced) break;",
           "if (first + (k + 1) * WARPS >= a.reduced) break;"),
    Mutant("a packed pool reads a column beside", CU + "window.cu", "(column + c * a.dilation[2]) * a.x_axis[2]",
           "(column + c) * a.x_axis[2] + a.x_axis[2]"),
    Mutant("few rows: the last pack is left out", CU + "product.cu", "k < a.depth; k += WARP * N", "k + N < a.depth; k += WARP * N"),
    Mutant("parts are all the first", CU + "move.cu", "all.parts[blockIdx.y]", "all.parts[0]"),
    Mutant("a fragment's row is wrong", CU + "tile.cu", "(k * 2 + lane / 16)", "(k * 2 + lane % 16 / 8)"),
    Mutant("the last keys count too", CU + "attention.cu", "|| key >= to[i / 2]) scores", "|| key > to[i / 2]) scores"),
    Mutant("rows that are no whole packs are packed", CU + "cuda_broadcast.c",
           "if (args->sizes[last] % pack) return 1;", ""),
    Mutant("a row sees the key behind its place", CU + "attention.cu",
           "range.to = place + a.right + 1;", "range.to = place + a.right + 2;"),
    Mutant("a tile begins behind the first key that is seen", CU + "attention.cu",
           "top_row).from / KEYS * KEYS : 0;", "top_row).from / KEYS * KEYS + KEYS : 0;"),
    Mutant("pairs are turned the other way", CU + "attention.cu", "c * x - s * other", "c * x + s * other"),
    Mutant("a gate reads another unit's weights", CU + "recurrent.cu", "r[g * n * n + k]", "r[g * n + k]"),
    Mutant("a backward sequence begins where the longest does", CU + "recurrent.cu",
           "at.active && backward ? length - 1", "at.active && backward ? a.length - 1"),
    Mutant("states go on beyond their sequence", CU + "recurrent.cu",
           "if (!at.active) h = a.h[at.state], c = a.c ? a.c[at.state] : 0;", ""),
    Mutant("states are written while others read them", CU + "cuda_recurrent.c",
           "*const *next = states[(args.step + 1) % 2]", "*const *next = states[args.step % 2]"),
    Mutant("a norm does not give its second result", CU + "norm.cu",
           "if (a.low) store_four(a.low, a.low_type, at + i, x[p]);", ""),
    Mutant("padding reads before the first element", CU + "move.cu",
           "if (at >= 0 && at < kept) return at;", "if (at < kept) return at;"),
    Mutant("updates out of range are put somewhere", CU + "index.cu",
           "return index >= 0 && index < size ? index : -1;", "return index;"),
    Mutant("what was taken is taken again", CU + "index.cu",
           "if (k && !before(taken, here, a.last)) continue; /* it was taken */", ""),
    Mutant("the best of a warp is written over the last line's", CU + "index.cu",
           "__syncthreads(); /* the last use of room is over */", ""),
    Mutant("updates of one place are combined at once", CU + "cuda_index.c",
           "args.lines = attrs->reduction != REDUCE_NONE;", ""),
    Mutant("a filter is not stretched where it shrinks", CU + "cuda_resize.c",
           "const double shrink = shrinks ? axis->scale : 1;", "const double shrink = 1; (void)shrinks;"),
    Mutant("an output sees inputs between its own", CU + "window.cu",
           "if (moved < 0 || moved % a.stride[k]) return -1;", "if (moved < 0) return -1;"),
    Mutant("quotients are rounded away from even", CU + "quantize.cu",
           "y = rintf(y < 200000.0f ? y : 200000.0f);", "y = roundf(y < 200000.0f ? y : 200000.0f);"),
    Mutant("a block's scale is the one before", CU + "quantize.cu",
           "place % a.axis / a.block;", "(place % a.axis ? place % a.axis - 1 : 0) / a.block;"),
    Mutant("what is recorded counts before it is repeated", RUN + "exec_record.c",
           "queue->counts = *before;", ""),
    Mutant("the last block is missing", CU + "cuda_launch.c",
           "+ (count % per_block != 0)", "+ (count < per_block)"),
    Mutant("a transposed factor is not", CU + "cuda_product.c",
           "p->trans_b ? s->k : s->n, p->trans_b ? s->n : s->k", "s->n, s->k"),
    Mutant("uneven batches are aligned as even ones", CU + "cuda_product.c",
           "(uint32_t)(bytes & (0 - bytes)) : DEVICE_ALIGN", "DEVICE_ALIGN : DEVICE_ALIGN"),
    Mutant("batches are one matrix", CU + "cuda_product.c",
           "BLAS_BATCH_STRIDE, &stride, sizeof stride", "BLAS_BATCH_STRIDE, &(int64_t){0}, 8"),
    Mutant("a residual is forgotten where there is a bias", CU + "cuda_dnn.c",
           "if (c->residual) {", "if (c->residual && !c->bias) {"),
    Mutant("a convolution's pads are exchanged", CU + "cuda_dnn.c",
           "put(d, g, CONV_BEGINS, T_INT64, axes, c->begins);",
           "put(d, g, CONV_BEGINS, T_INT64, axes, c->ends);"),
    Mutant("a stream is never waited for", CU + "cuda_kind.c",
           "captured ? 0 : device->driver->stream_wait(cuda_queue_of(queue)->stream);", "0;"),
    Mutant("an error of work is not told", CU + "cuda_kind.c",
           "return cuda_ok(device->driver, result, err, \"work on the device\");", "return true;"),
    Mutant("streams are not given back", CU + "cuda_kind.c",
           "device->driver->stream_free(cuda_queue_of(freed)->stream);", ""),
    Mutant("counters are not given back", CU + "cuda_kind.c",
           "cuda_release(&device->base, cuda_queue_of(freed)->counters);", ""),
    Mutant("graphs are not given back", CU + "cuda_kind.c",
           "if (graph) device->driver->graph_free(graph);", ""),
    Mutant("steps of the processor do not wait", RUN + "exec_device.c",
           "return (step->device && !reads_input(exec, step)) || exec_device_wait(exec);",
           "return true;"),
    Mutant("an operand that the host reads is not waited for", RUN + "exec_device.c",
           "step->device && !reads_input(exec, step)", "step->device"),
    Mutant("what runs a graph does not wait for it", RUN + "exec.c",
           "if (exec->device.pending && exec->progress.depth > 0)", "if (false)"),
    Mutant("constants are not waited for", RUN + "plan_share.c",
           "device->kind->wait(share->queue, err))", "true)"),
    Mutant("constants are not given back", RUN + "plan_share.c",
           "share->device->kind->release(share->device, bytes);", ";"),
    Mutant("a recording has its first inputs", RUN + "exec_record.c",
           "memcpy(staging->pinned, value->tensor->tensor.data, staging->size);", "continue;"),
    Mutant("a recording does not see inputs behind Identities", RUN + "step_place.c",
           "source = handed_on(p, value), copy", "source = value, copy"),
    Mutant("what a branch hands on is where it was", RUN + "step_place.c",
           "&& p->ends[g][i] != p->remote[value]", "&& p->remote[value] && !p->ends[g][i]"),
    Mutant("a cast is left to steps that want one type", RUN + "step_casts.c",
           "reads->mixed = mixed && (!reads->count || reads->mixed);", "reads->mixed |= mixed;"),
    Mutant("what others read is stored in the cast's type", RUN + "step_casts.c",
           "|| d->reads[x].count != 1 ||", "||"),
    Mutant("a branch is repeated whatever decides", RUN + "step_place.c",
           "if (p->remote[value] || p->of_input[value]) return false;\n    }\n    note_handed", "}\n    note_handed"),
    Mutant("what is known of the caller's memory is not", RUN + "exec_record.c",
           "return exec->device.pool.trims + exec->device.moves;", "return exec->device.pool.trims;"),
    Mutant("memory is given back before work is done", RUN + "value_store.c",
           "if (pool->queue) pool->device->kind->wait(pool->queue, &ignored);", "(void)ignored;"),
    Mutant("memory that is not aligned is taken for aligned", RUN + "exec_record.c",
           "(uintptr_t)there % DEVICE_ALIGN == 0;", "true;"),
    Mutant("an output is not put where the caller has it", RUN + "exec_record.c",
           "if (from->data != there->data &&\n        !kind_of(exec)->copy(exec->device.queue, there->data, from->data, size, exec->err))\n"
           "        return exec_name_step(exec, step);", ""),
    Mutant("what is only started is taken for done", RUN + "demi_runtime.c",
           "if (exec_device_wait(exec)) collect(context);", "collect(context);"),
    Mutant("a run that flies is not waited for", RUN + "demi_runtime.c",
           "if (exec_device_works(exec)) exec_device_wait(exec); /* and forget */", ""),
    Mutant("the caller's stream is given back", CU + "cuda_kind.c",
           "if (!cuda_queue_of(freed)->foreign)\n", ""),
    Mutant("a captured stream is waited for", CU + "cuda_kind.c",
           "return !captured || refuse(err);", "return true;"),
    Mutant("others' captures are disturbed", CU + "cuda_device.c",
           "driver->record_mode(&mode) == 0 ? mode : -1;", "-1;"),
    Mutant("the processor reads the device's memory", RUN + "context_device.c",
           "if (context->reads[i] == NOT_READ && !exec->options.after) return true;", "return true;"),
    Mutant("there is no limit of the device's memory", RUN + "exec_device.c",
           "(PoolFrom){options->memory,", "(PoolFrom){UINT64_MAX,"),
    Mutant("TF32 is there without being asked for", CU + "cuda_kind.c",
           "queue->base.tf32 = wish->tf32;", "queue->base.tf32 = true;"),
    Mutant("inputs are gone after a recording that failed", RUN + "exec_record.c",
           "give_inputs(exec, inputs, kept, !recorded);", "give_inputs(exec, inputs, kept, false);"),
    Mutant("recordings outlive their memory", RUN + "exec_memory.c",
           "if (remote) exec_device_forget(exec);", ""),
    Mutant("a step that is declined loses the operand that its result would lie in", RUN + "exec_kernel.c",
           "*placed = (RtValue){.state = RT_TENSOR, .tensor = form->results[0]};\n        form->results[0] = NULL;",
           ";"),
    Mutant("what the processor reads for a declined step is not waited for", RUN + "exec_here.c",
           "ok = exec_device_wait(exec) && ok;", ""),
    Mutant("casts of a declined step are not done", RUN + "exec_here.c",
           "to->tensor = converted(here, to->tensor, wanted);", "(void)wanted;"),
    Mutant("a declined step is recorded", RUN + "exec_here.c", "if (exec->device.record)", "if (false)"),
    Mutant("memory of declined steps is not counted", RUN + "exec_here.c",
           "own->pool.budget = exec->pool.budget - exec->pool.used;", "own->pool.budget = UINT64_MAX;"),
    Mutant("what a declined step gave is kept", RUN + "exec_here.c", "clear(&here->exec, step);\n", ""),
    Mutant("weights of a byte are exchanged", CU + "bits.cu", "from[in / 2] >> in % 2 * 4", "from[in / 2] >> (1 - in % 2) * 4"),
    Mutant("a block has the other half of its zero point's byte", CU + "bits.cu",
           "block / 2] >> block % 2 * 4", "block / 2] >> (1 - block % 2) * 4"),
    Mutant("weights behind the depth count too", CU + "bits.cu",
           "if (k >= a.depth) return; /* the last block is not full */", ""),
    Mutant("rows that there are none of are read", CU + "bits.cu", "(r < a.rows ? r : a.rows - 1)", "r"),
    Mutant("words of four blocks have the first one's scale", CU + "bits.cu",
           "each = words % 4 == 0 ? 4 : 1", "each = a.blocks * words % 4 == 0 ? 4 : 1"),
    Mutant("what is added to a product of few bits is added twice", CU + "cuda_bits.c",
           "if (b->few) left.bias = left.z = NULL;", ""),
    Mutant("work that could not be waited for is forgotten", RUN + "exec_device.c",
           "exec->device.lags = !kind_of(exec)->wait(exec->device.queue, exec->err);\n    return !exec->device.lags;",
           "return kind_of(exec)->wait(exec->device.queue, exec->err);"),
    Mutant("any cuDNN will do", CU + "cuda_dnn.c", "if (version / PER_MAJOR == MAJOR) return true;", "return true;"),
    Mutant("what cuDNN says of its libraries is forgotten", CU + "cuda_dnn.c",
           "if (is_broken(status)) d->broken = status;", ""),
    Mutant("states are the device's, whoever makes them", RUN + "step_place.c", "!will_be_remote(p, next))\n", "true)\n"),
    Mutant("a state that both change is where it was", RUN + "step_place.c",
           "p->remote[inputs[i]] = p->ends[t->body][t->output + i] = true;", "p->remote[inputs[i]] = true;"),
    Mutant("a constant becomes a state as it is", RUN + "step_place.c",
           "return is_constant(p, value) && p->reasons[number] != PLACE_CONTROL;", "return is_constant(p, value);"),
    Mutant("a constant's copy for a loop is taken for all", RUN + "step_place.c",
           "if (inputs[i] != PLAN_NONE && is_constant(p, inputs[i])) p->other[inputs[i]] = PLAN_NONE;", ";"),
    Mutant("what a loop collects is joined by the processor", RUN + "exec_control.c",
           "exec_is_remote(exec, step->outputs[i]);", "false;"),
    Mutant("slices lie one behind the other whatever is between", RUN + "exec_slices.c",
           "blocks.inner * (uint64_t)range->start, chunk);", "0, chunk);"),
    Mutant("loops are recorded however long they are", RUN + "exec_record.c",
           "record->counts.launches <= MOST_LAUNCHES;", "true;"),
    Mutant("weights of 4 bits have no sign", CU + "quantize.cu", "& 15) ^ 8) - 8;", "& 15));"),
    Mutant("the processor makes floats of weights in every run", RUN + "step_place.c",
           "if (reads_constants(p, step) && stays(p, step)) return PLACE_CONSTANT;",
           "if (reads_constants(p, step)) return PLACE_CONSTANT;"),
    Mutant("a channel is shifted before it is scaled", CU + "norm.cu",
           "const float y = x * load_any(a.scale, a.scale_type, c) + load_any(a.shift, a.shift_type, c);",
           "const float y = (x + load_any(a.shift, a.shift_type, c)) * load_any(a.scale, a.scale_type, c);"),
    Mutant("an affine step's channels are the last axis", CU + "cuda_norm.c",
           ".channels = x->dims[axis],\n                             .inner = (int64_t)kernel_span(x, axis + 1, x->rank)",
           ".channels = x->dims[axis],\n                             .inner = 1"),
    Mutant("an affine step's activation is forgotten", CU + "norm.cu",
           "activate(a.op, y, a.p, a.q));\n    }\n}\n\nextern \"C\" __global__ void __launch_bounds__(256) lrn",
           "y);\n    }\n}\n\nextern \"C\" __global__ void __launch_bounds__(256) lrn"),
    Mutant("`show` reads operands that there are not yet", RUN + "place_declined.c",
           "step->rows[r].host >> i & 1 && !step->constant[i]) return false;",
           "step->rows[r].host >> i & 1 && !step->constant[i] && false) return false;", shows=True),
    Mutant("what is declined at some sizes is said to be at all", RUN + "place_declined.c",
           "sizes[] = {1, 64};", "sizes[] = {1000};", shows=True),
    Mutant("values lie closer than libraries think", RUN + "exec_memory.c",
           "return remote && checked_align(size, DEVICE_ALIGN, &rounded) ? rounded : size;",
           "(void)remote, (void)rounded;\n    return size;"),
    # Kinds of cases that there were none of once: what of them only few tests see.
    Mutant("columns of taps are as far apart as rows", CU + "tile.cu",
           "p.row * a.dilation[0] * a.x_row + p.column * a.dilation[1] * a.x_column",
           "p.row * a.dilation[0] * a.x_row + p.column * a.dilation[0] * a.x_column"),
    Mutant("which taps are inside is asked as if columns were as far apart as rows", CU + "tile.cu",
           "column = pixel.side + p.column * a.dilation[1];", "column = pixel.side + p.column * a.dilation[0];"),
    Mutant("windows of a tile are as far apart along both axes", CU + "tile.cu", "* a.stride[1] - a.begin[1];",
           "* a.stride[0] - a.begin[1];"),
    Mutant("a tile's pads are those of the other axis", CU + "cuda_conv.c", "args.begin[i] = a->begin[1 + i];",
           "args.begin[i] = a->begin[2 - i];"),
    Mutant("the library's windows are as far apart along all axes", CU + "cuda_conv.c",
           "to->strides[extra + i] = w->axes[i].stride;", "to->strides[extra + i] = w->axes[0].stride;"),
    Mutant("the library's taps are as far apart along all axes", CU + "cuda_conv.c",
           "to->dilations[extra + i] = w->axes[i].dilation;", "to->dilations[extra + i] = w->axes[0].dilation;"),
    Mutant("a tile's bound drops what is no number", CU + "tile.cu", "y[k][j] = y[k][j] < low ? low : y[k][j];",
           "y[k][j] = fmaxf(y[k][j], low);"),
    Mutant("an activation of a pack drops what is no number", CU + "unary.cuh",
           "x[i] = x[i] < low ? low : x[i] > high ? high : x[i];", "x[i] = fminf(fmaxf(x[i], low), high);",
           "pointwise product window tile bits"),
    Mutant("GELU of -infinity is 0", CU + "unary.cuh", "(x < 0 ? x * 0 : x) - size", "max_nan(x, 0) - size",
           "pointwise product tile bits"),
    Mutant("the largest of a window is a number wherever there is one", CU + "window.cu",
           "a.pool == POOL_MAX ? max_nan(value, sum)", "a.pool == POOL_MAX ? fmaxf(value, sum)"),
    Mutant("a row's variance is that of its squares, less that of its mean", CU + "norm.cu",
           "- mean;\n            squares += d * d;\n        }\n"
           "        const float scale = 1 / sqrtf(block_sum(squares, room) / (float)a.n + a.epsilon);",
           "- mean;\n            squares += (d + mean) * (d + mean);\n        }\n"
           "        const float scale = 1 / sqrtf(block_sum(squares, room) / (float)a.n - mean * mean + a.epsilon);"),
    Mutant("a packed row's variance is that of its squares, less that of its mean", CU + "norm.cu",
           "x[p][j] -= mean, squares += x[p][j] * x[p][j];\n    }\n"
           "    const float factor = 1 / sqrtf(block_sum(squares, room) / (float)a.n + a.epsilon);",
           "squares += x[p][j] * x[p][j], x[p][j] -= mean;\n    }\n"
           "    const float factor = 1 / sqrtf(block_sum(squares, room) / (float)a.n - mean * mean + a.epsilon);"),
    Mutant("a warp's variance is that of its squares, less that of its mean", CU + "norm.cu",
           "x[p][j] -= mean, squares += x[p][j] * x[p][j];\n    }\n"
           "    const float factor = 1 / sqrtf(warp_sum(squares) / (float)n + a.epsilon);",
           "squares += x[p][j] * x[p][j], x[p][j] -= mean;\n    }\n"
           "    const float factor = 1 / sqrtf(warp_sum(squares) / (float)n - mean * mean + a.epsilon);"),
    Mutant("a softmax does not take its largest element away", CU + "norm.cu", "most = block_max(most, room);",
           "most = block_max(most, room) * 0;"),
    Mutant("a softmax by columns does not take its largest element away", CU + "norm.cu",
           "const float shift = a.log ? most + logf(sum) : most, scale = 1 / sum;\n        for (int64_t i = 0; i < a.n; i++) {",
           "const float shift = a.log ? logf(sum * expf(most)) : most, scale = 1 / sum;\n        for (int64_t i = 0; i < a.n; i++) {"),
    Mutant("the logarithm of a sum of exponentials does not take the largest away", CU + "reduce.cu",
           "const float most = isinf(x) ? 0 : x;", "const float most = 0;"),
    Mutant("scores of few rows do not have their largest taken away", CU + "attention.cu",
           "most[r] = max_nan(score, before);\n            const float base = most[r] == -INFINITY ? 0 : most[r];",
           "most[r] = max_nan(score, before);\n            const float base = 0;"),
    Mutant("few rows go by packs whatever their depth", CU + "cuda_product.c", "s->k * size % 16 == 0 && ", ""),
    Mutant("tiles take depths of half a pack", CU + "cuda_tile.c", "channels % 8 == 0", "channels % 4 == 0"),
    Mutant("heads are packed that are no whole packs", CU + "cuda_attention.c",
           "(uint64_t)elements * size % pack == 0 && steps * size % pack == 0", "elements > 0 && (steps * size % pack == 0 || steps)"),
    Mutant("all devices are the first that was opened", CU + "cuda_device.c", "while (device && device->number != number)",
           "while (device && false)"),
    Mutant("a plan is on one device alone", RUN + "plan_devices.c", "(placed->kind != kind || placed->number != number)",
           "placed->kind != kind"),
    Mutant("all devices have clusters where the first has", CU + "cuda_launch.c",
           "return cuda_device_of(call)->info.version[0] >= 9;",
           "static int first;\n    if (!first) first = cuda_device_of(call)->info.version[0];\n    return first >= 9;"),
    Mutant("devices share cuBLASLt's handle", CU + "cuda_blas.c", "void **handle = &device->libraries[CUDA_BLAS];",
           "static void *one;\n    void **handle = &one;"),
    Mutant("devices share cuDNN's handle", CU + "cuda_dnn.c", "void **handle = &device->libraries[CUDA_DNN];",
           "static void *one;\n    void **handle = &one;"),
    Mutant("convolutions are in TF32 whatever is asked for", CU + "cuda_dnn.c",
           "if (d->conv->dtype == DTYPE_FLOAT && !d->conv->tf32)", "if (false)"),
    Mutant("products are in TF32 whatever is asked for", CU + "cuda_product.c", ": r->tf32 ? BLAS_COMPUTE_TF32",
           ": p->compute == DTYPE_FLOAT ? BLAS_COMPUTE_TF32"),
    Mutant("TF32 is counted and not asked for", CU + "cuda_product.c", ": r->tf32 ? BLAS_COMPUTE_TF32", ": false ? BLAS_COMPUTE_TF32"),
    Mutant("convolutions go by tiles where the library is faster", CU + "cuda_conv.c",
           "tile.time >= library_time(call, &tile, depth, whole)", "tile.time < library_time(call, &tile, depth, whole)"),
    Mutant("products go by tiles where the library is faster", CU + "cuda_product.c", "tile.time < library_time(p, r)",
           "tile.time > library_time(p, r)"),
    Mutant("few rows go by the library", CU + "cuda_product.c", "return r->few;\n}", "return r->few = false;\n}"),
    Mutant("the caller's capture mode is left as demi had it", CU + "cuda_device.c",
           "if (--entered == 0 && mode_before >= 0) device->driver->record_mode(&mode_before);", "--entered;"),
    Mutant("a recording leaves its context to the thread", CU + "cuda_kind.c",
           "if (graph) device->driver->graph_free(graph);\n    cuda_leave(device);",
           "if (graph) device->driver->graph_free(graph);\n    if (!ok) cuda_leave(device);"),
    Mutant("there are devices where the driver says that there are none", CU + "cuda_driver.c", "if (ready == CU_NO_DEVICE)",
           "if (ready == CU_NO_DEVICE + 1)"),
    Mutant("kernels of another architecture are an error of no name", CU + "cuda_launch.c",
           "result == CU_NO_BINARY_FOR_GPU || ", ""),
    Mutant("memory that is short is an invalid value", CU + "cuda_device.c", "if (result == CU_OUT_OF_MEMORY)",
           "if (result == CU_OUT_OF_MEMORY - 1)"),
    Mutant("an error has the name of success", CU + "cuda_driver.c", "driver->error_name(result, &name)",
           "driver->error_name(0, &name)"),
    Mutant("constants of one size are the same", RUN + "plan_share.c", "a->variant == b->variant && ", ""),
    Mutant("a recording is repeated though the caller's memory moved", RUN + "exec_record.c",
           "(*slot)->stamp == stamp_of(exec)) return repeat_anew", "true) return repeat_anew"),
)


def run(*words: object, cwd: pathlib.Path = ROOT, **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True,
                          check=False, **more)


class Bench:
    """Where mutants are made and tried."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path) -> None:
        self.build, self.folder = build, folder
        self.commands = {pathlib.Path(c["file"]): c for c in
                         json.loads((build / "compile_commands.json").read_text())
                         if "libdemi" not in c["command"] and "/demi_fake" not in c["command"]}
        cache = (build / "CMakeCache.txt").read_text()
        self.nvcc = re.search(r"^DEMI_NVCC:FILEPATH=(.*)", cache, re.M)[1]
        self.cc = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)", cache, re.M)[1]

    def source(self, mutant: Mutant) -> pathlib.Path:
        """The changed file, in a folder that has what it includes."""
        text = (ROOT / mutant.file).read_text()
        if mutant.old not in text:
            sys.exit(f"cuda_mutants: {mutant.what}: {mutant.file} has no {mutant.old!r}")
        shutil.rmtree(self.folder / "src", ignore_errors=True)
        target = self.folder / "src" / pathlib.Path(mutant.file).name
        if mutant.file.startswith(CU):
            shutil.copytree(ROOT / CU, target.parent)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text.replace(mutant.old, mutant.new, 1))
        return target

    def kernels(self, mutant: Mutant) -> dict[str, str]:
        """The environment with the changed PTX."""
        made, source = self.folder / "ptx", self.source(mutant)
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        for path in (self.build / "cuda").glob("*.*"):
            if path.suffix in (".ptx", ".fatbin"):
                (made / path.name).symlink_to(path)
        for family in mutant.families.split() or [source.stem]:
            output = made / f"{family}.ptx"
            output.unlink()
            done = run(self.nvcc, "-ptx", "-arch=compute_90", "-std=c++17", "-O3", f"-I{source.parent}",
                       f"-I{ROOT / 'rewrite/base'}", "-o", output, source.parent / f"{family}.cu")
            if done.returncode:
                sys.exit(f"cuda_mutants: {mutant.what}: {done.stderr}")
        return {"FAKE_CUDA_FOLDER": str(made)}

    def compiled(self, mutant: Mutant) -> pathlib.Path:
        """The changed file as an object."""
        command, source = self.commands[ROOT / mutant.file], self.source(mutant)
        words = [w for w in shlex.split(command["command"]) if w != "-Werror"]
        words = words[words.index(self.cc):]  # without what may launch it
        at, out = words.index("-o"), self.folder / "mutant.o"
        words[at + 1] = str(out)
        words = [str(source) if w == command["file"] else w for w in words]
        done = run(*words, f"-I{(ROOT / mutant.file).parent}", cwd=pathlib.Path(command["directory"]))
        if done.returncode:
            sys.exit(f"cuda_mutants: {mutant.what}: {done.stderr}")
        return out

    def linked(self, mutant: Mutant, name: str, *words: object) -> pathlib.Path:
        """What is linked with the changed file; its object comes first, the other's symbols are not used."""
        parts = [self.build / f"libdemi_{p}.a" for p in (
            "training", "search", "trials", "solve", "passes", "proto", "onnx_pb", "rewrite", "runtime", "kernels",
            "shape", "base")]
        done = run(self.cc, *words, "-o", self.folder / name, self.compiled(mutant),
                   "-Wl,--allow-multiple-definition", "-Wl,--whole-archive", *parts, "-Wl,--no-whole-archive",
                   "-lprotobuf-c", "-ljansson", "-lz", "-lm", "-ldl", "-lpthread")
        if done.returncode:
            sys.exit(f"cuda_mutants: {mutant.what}: {done.stderr}")
        return self.folder / name

    def caught(self, mutant: Mutant) -> str:
        """What saw it: the first line that a test says; "" where none did."""
        library, demi, environment = self.build / "libdemi.so", self.build / "demi", dict(os.environ)
        if mutant.file.endswith((".cu", ".cuh")):
            environment |= self.kernels(mutant)
        elif mutant.shows:
            objects = (self.build / "CMakeFiles/demi.dir").rglob("*.o")
            demi = self.linked(mutant, "demi", *objects)
        else:
            library = self.linked(mutant, "libdemi.so", "-shared")
        return tried(library, demi, environment, mutant.file.startswith(RUN))


def tried(library: pathlib.Path, demi: pathlib.Path, environment: dict[str, str], runs: bool = False) -> str:
    """Until a test fails, of those that run for each commit; what is about runs of plans comes first where they are
    what was changed."""
    suites = pathlib.Path(__file__).parent
    of_kernels = [(suites / "cuda_cases_test.py", "--first"),
                  (suites / "corpus_test.py", "--kinds", "backend", "--judges", "device")]
    of_runs = [(suites / "cuda_steps_test.py", "-f", "--demi", demi),
               (suites / "cuda_test.py", "-f", "BadDevices", "Callers", "Threads", "Failures", "Networks")]
    for words in of_runs + of_kernels if runs else of_kernels + of_runs:
        done = run(sys.executable, "-B", *words, "--libdemi", library, env=environment)
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            return next((f"{words[0].name}: {line}" for line in lines if line.startswith(("FAIL", "fake", "Assert"))),
                        f"{words[0].name}: exit {done.returncode}")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", default="", help="mutants with these words, or of this file")
    parser.add_argument("--processes", type=int, default=2, help="mutants that are tried at once")
    parser.add_argument("--check", action="store_true", help="only whether each still has something to change")
    args, left = parser.parse_args(), 0
    mutants = [m for m in MUTANTS if args.only in m.what or m.file.endswith("/" + args.only)]
    if args.check:
        gone = [m for m in mutants if m.old not in (ROOT / m.file).read_text()]
        for mutant in gone:
            print(f"{mutant.what}: {mutant.file} has no {mutant.old!r}")
        print(f"{len(mutants) - len(gone)} of {len(mutants)} can be made")
        return 1 if gone else 0
    build = args.build.resolve()

    def tried_out(mutant: Mutant) -> tuple[Mutant, str, float]:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            return mutant, Bench(build, pathlib.Path(folder)).caught(mutant), time.monotonic() - start

    if text := tried(build / "libdemi.so", build / "demi", dict(os.environ)):
        sys.exit(f"cuda_mutants: the tests fail without a change: {text}")
    with futures.ThreadPoolExecutor(args.processes) as pool:
        for mutant, text, took in pool.map(tried_out, mutants):
            left += not text
            print(f"{'seen  ' if text else 'MISSED'} {mutant.what} ({took:.0f} s){': ' * bool(text)}{text[:200]}",
                  flush=True)
    print(f"{len(mutants) - left} of {len(mutants)} seen")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
