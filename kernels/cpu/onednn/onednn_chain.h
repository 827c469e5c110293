// SPDX-License-Identifier: Apache-2.0
/* Primitives of oneDNN that run one after the other, what a prepared row keeps: say a change of
 * layout, a convolution, a change back.
 *
 * A chain is made once, by functions that may be called in a row: after one fails the others do
 * nothing and `failed` stays set, so that the row declines. Memory objects have no memory of their
 * own: what a call gives is set before each run, the rest and the primitives' scratchpads are one
 * workspace.
 *
 * A chain computes with one thread. Where a call has more, it has a chain for each part of its images
 * or rows, which demi's own threads run: those of OpenMP would all have to be there before any of
 * them goes on, which takes a scheduler's time slice wherever other programs want the processors.
 */
#ifndef DEMI_ONEDNN_CHAIN_H
#define DEMI_ONEDNN_CHAIN_H

#include "kernel.h"
#include "onednn_load.h"
#include "onednn_rules.h"

enum { CHAIN_DESCS = 16, CHAIN_MEMORIES = 16, CHAIN_STEPS = 5, CHAIN_ARGS = 6, CHAIN_NONE = -1 };

typedef struct ChainStep {
    dnnl_primitive_desc_t desc; /* what is queried of it lives as long */
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[CHAIN_ARGS];
    int count;
} ChainStep;

typedef struct OnednnChain {
    const Onednn *lib;
    bool failed;
    unsigned parts;     /* of the first of them: how many there are, */
    uint64_t part_size; /* and bytes from one to the next */
    dnnl_stream_t stream;
    dnnl_memory_desc_t descs[CHAIN_DESCS];
    dnnl_memory_t memories[CHAIN_MEMORIES];
    uint64_t offsets[CHAIN_MEMORIES]; /* in the workspace; UINT64_MAX: given */
    ChainStep steps[CHAIN_STEPS];
    int desc_count, memory_count, step_count;
    uint64_t workspace;
    const_dnnl_memory_desc_t pack_from, pack_to; /* what onednn_pack changes */
} OnednnChain;

/* One argument of a primitive: DNNL_ARG_…, and the number of a memory; CHAIN_NONE leaves it out. */
typedef struct ChainArg {
    int arg, memory;
} ChainArg;

/* Chains for that much work, which can be cut into `items` pieces, in kernel_keep's memory of `size`
 * bytes each, of whose struct they are the first member; sets call->prepared, to the first. More than
 * there are threads where one would run for long: between them the run may end. NULL: decline, as
 * pieces that are too large for that do. Whoever makes their primitives enters the library, as running does. */
void *onednn_chains_new(KernelCall *call, const OnednnWork *work, uint64_t items, uint64_t size);
/* KernelPrepare.release of structs that begin with a chain. */
void onednn_chains_release(void *prepared);

/* The struct of part i. */
static inline void *onednn_part(const void *prepared, unsigned i) {
    const OnednnChain *first = prepared;
    return (char *)(uintptr_t)prepared + i * first->part_size;
}
/* True where a part's chain could not be made. */
bool onednn_chains_failed(const void *prepared);

/* Pieces [first, first + count) of `items`. */
typedef struct OnednnShare {
    uint64_t first, count;
} OnednnShare;
OnednnShare onednn_share(const void *prepared, uint64_t items, unsigned part);

/* A tensor in memory: with these strides in elements, or row-major (NULL). */
const_dnnl_memory_desc_t onednn_desc(OnednnChain *chain, dnnl_data_type_t type, int rank,
                                     const dnnl_dim_t *dims, const dnnl_dim_t *strides);
/* One whose layout oneDNN chooses. */
const_dnnl_memory_desc_t onednn_desc_any(OnednnChain *chain, dnnl_data_type_t type, int rank,
                                         const dnnl_dim_t *dims);

/* Memory that the calls give, or within the workspace. */
int onednn_given(OnednnChain *chain, const_dnnl_memory_desc_t desc);
int onednn_within(OnednnChain *chain, const_dnnl_memory_desc_t desc);

/* Attributes of all primitives here: the scratchpad is the caller's. To be destroyed. */
dnnl_primitive_attr_t onednn_attr(OnednnChain *chain);

/* The next step, of a descriptor that was made with onednn_attr (`status`: how that ended); takes
 * it over. False where it failed. */
bool onednn_step(OnednnChain *chain, dnnl_status_t status, dnnl_primitive_desc_t desc);
/* Gives the last step its arguments. */
void onednn_args(OnednnChain *chain, const ChainArg *args, int count);
/* A layout of the last step: dnnl_query_src_md, … */
const_dnnl_memory_desc_t onednn_wanted(const OnednnChain *chain, dnnl_query_t what);
/* Fails the chain where that is a reference implementation: correct and very slow. */
void onednn_refuse_reference(OnednnChain *chain);

/* A step that copies memory `from`, of layout `from_desc`, to memory `to`. */
void onednn_reorder(OnednnChain *chain, const_dnnl_memory_desc_t from_desc, int from,
                    const_dnnl_memory_desc_t to_desc, int to);

/* A memory of that layout in the place of `memory`, which is within the workspace. */
int onednn_alias(OnednnChain *chain, const_dnnl_memory_desc_t desc, int memory);
/* The part of `whole` that begins at `offsets`. */
const_dnnl_memory_desc_t onednn_desc_part(OnednnChain *chain, const_dnnl_memory_desc_t whole,
                                          const dnnl_dims_t dims, const dnnl_dims_t offsets);

/* The constant input i, of layout `from`, as the last step of the first part wants its weights, in
 * memory of the plan's. NULL: it is not constant, or that can't be done. */
const void *onednn_pack_shared(KernelCall *call, uint32_t i, const_dnnl_memory_desc_t from);
/* Fails the chain of another part whose last step wants weights in another layout than the first's. */
void onednn_refuse_other_weights(const KernelCall *call, OnednnChain *chain);

/* Copies from one layout to another, now. False where oneDNN can't. */
bool onednn_copy(const OnednnChain *chain, const_dnnl_memory_desc_t from_desc, const void *from,
                 const_dnnl_memory_desc_t to_desc, void *to);
/* A number that differs where layouts or implementations do. */
uint64_t onednn_layout_hash(const OnednnChain *chain, const_dnnl_memory_desc_t desc);

static inline void onednn_set(OnednnChain *chain, int memory, const void *data) {
    if (memory != CHAIN_NONE)
        chain->lib->memory_set_data_handle(chain->memories[memory], (void *)(uintptr_t)data);
}

/* Memory for all parts' workspaces; NULL with the error set. */
void *onednn_workspace(KernelCall *call);
/* Where memory of a part's workspace is in it. */
void *onednn_at(const KernelCall *call, unsigned part, int memory, void *workspace);

/* Runs all parts in that workspace; memories that are given have been set. False with the error
 * set. */
bool onednn_chains_run(KernelCall *call, void *workspace);

/* True where the last step sums products of unsigned and signed bytes to int32 without a rounding:
 * some implementations go through float, which has them exactly up to 2^24 only. */
bool onednn_sums_exactly(const OnednnChain *chain, uint64_t depth);

/* to[i] = from[i] ^ 128: between uint8 and int8, with the zero point moved by 128. */
void onednn_flip(void *to, const void *from, uint64_t count);

/* Dims as oneDNN takes them. False where one is 0 or beyond what its 32-bit arithmetic can do. */
bool onednn_dims(const KernelTensor *tensor, dnnl_dims_t dims);

#endif
