// SPDX-License-Identifier: Apache-2.0
/* Chains of primitives; see onednn_chain.h. */
#include "onednn_chain.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { CHAIN_ALIGN = 64, RANK_MOST = 6 };

/* ---- making ---------------------------------------------------------------------------------- */

/* Multiply-adds that are worth a part of their own; and as many as one may have, since nobody can
 * end a primitive that runs: a second of float's, or some seconds on a slow processor. */
static const double WORK_OF_PART = 1 << 20, MOST_OF_PART = 68719476736.0 /* 2^36 */;
enum { PARTS_MOST = 256 };

static uint64_t align(uint64_t size) {
    return (size + CHAIN_ALIGN - 1) / CHAIN_ALIGN * CHAIN_ALIGN;
}

/* 0: pieces are too large, and own kernels, which are asked whether they are to end, compute them. */
static unsigned parts_of(const KernelCall *call, const OnednnWork *work, uint64_t items) {
    const double amount = (double)work->batches * (double)work->groups * (double)work->rows *
                          (double)work->columns * (double)work->depth;
    const bool asked = call->provider == KERNEL_PROVIDER_ONEDNN; /* tests ask, of small ones */
    uint64_t parts = kernel_threads(call);
    if (!asked && amount < (double)parts * WORK_OF_PART) parts = (uint64_t)(amount / WORK_OF_PART);
    if (amount > MOST_OF_PART) {
        const double together =
            floor(MOST_OF_PART / (amount / (double)items)); /* items of a part */
        const double least = together > 0 ? ceil((double)items / together) : INFINITY;
        if (least > PARTS_MOST) return 0;
        if ((double)parts < least) parts = (uint64_t)least;
    }
    if (parts > items) parts = items;
    return parts ? (unsigned)parts : 1;
}

void *onednn_chains_new(KernelCall *call, const OnednnWork *work, uint64_t items, uint64_t size) {
    const Onednn *lib = onednn_get();
    const unsigned parts = parts_of(call, work, items);
    size = align(size);
    OnednnChain *first = lib && parts ? kernel_keep(call, parts * size) : NULL;
    if (!first) return NULL;
    first->part_size = size;
    first->parts = parts;
    for (unsigned i = 0; i < parts; i++) ((OnednnChain *)onednn_part(first, i))->lib = lib;
    call->prepared = first; /* before anything is opened: release closes it */
    for (unsigned i = 0; i < parts; i++) {
        OnednnChain *chain = onednn_part(first, i);
        chain->failed = lib->stream_create(&chain->stream, lib->engine,
                                           dnnl_stream_default_flags) != dnnl_success;
    }
    return first;
}

bool onednn_chains_failed(const void *prepared) {
    const OnednnChain *first = prepared;
    bool failed = false;
    for (unsigned i = 0; i < first->parts; i++)
        failed = failed || ((const OnednnChain *)onednn_part(first, i))->failed;
    return failed;
}

OnednnShare onednn_share(const void *prepared, uint64_t items, unsigned part) {
    const OnednnChain *first = prepared;
    const uint64_t begin = items * part / first->parts, end = items * (part + 1) / first->parts;
    return (OnednnShare){begin, end - begin};
}

static void release(OnednnChain *chain) {
    const Onednn *lib = chain->lib;
    for (int i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].primitive) lib->primitive_destroy(chain->steps[i].primitive);
        if (chain->steps[i].desc) lib->primitive_desc_destroy(chain->steps[i].desc);
    }
    for (int i = 0; i < chain->memory_count; i++) lib->memory_destroy(chain->memories[i]);
    for (int i = 0; i < chain->desc_count; i++) lib->memory_desc_destroy(chain->descs[i]);
    if (chain->stream) lib->stream_destroy(chain->stream);
}

void onednn_chains_release(void *prepared) {
    OnednnChain *first = prepared;
    for (unsigned i = 0; i < first->parts; i++) release(onednn_part(first, i));
}
static const_dnnl_memory_desc_t keep_desc(OnednnChain *chain, dnnl_status_t status,
                                          dnnl_memory_desc_t desc) {
    if (status != dnnl_success) {
        chain->failed = true;
        return NULL;
    }
    chain->descs[chain->desc_count++] = desc;
    return desc;
}

static bool full(OnednnChain *chain, int count, int most) {
    if (count >= most) chain->failed = true;
    return chain->failed;
}

const_dnnl_memory_desc_t onednn_desc(OnednnChain *chain, dnnl_data_type_t type, int rank,
                                     const dnnl_dim_t *dims, const dnnl_dim_t *strides) {
    dnnl_dims_t sizes = {0}, steps = {0}; /* the interface declares so many */
    dnnl_memory_desc_t desc = NULL;
    if (full(chain, chain->desc_count, CHAIN_DESCS)) return NULL;
    dnnl_dim_t step = 1;
    for (int i = rank; i-- > 0; step *= dims[i]) {
        sizes[i] = dims[i];
        steps[i] = strides ? strides[i] : step;
    }
    dnnl_status_t status =
        chain->lib->memory_desc_create_with_strides(&desc, rank, sizes, type, steps);
    return keep_desc(chain, status, desc);
}

const_dnnl_memory_desc_t onednn_desc_any(OnednnChain *chain, dnnl_data_type_t type, int rank,
                                         const dnnl_dim_t *dims) {
    dnnl_dims_t sizes = {0};
    dnnl_memory_desc_t desc = NULL;
    if (full(chain, chain->desc_count, CHAIN_DESCS)) return NULL;
    for (int i = 0; i < rank; i++) sizes[i] = dims[i];
    dnnl_status_t status =
        chain->lib->memory_desc_create_with_tag(&desc, rank, sizes, type, dnnl_format_tag_any);
    return keep_desc(chain, status, desc);
}

int onednn_given(OnednnChain *chain, const_dnnl_memory_desc_t desc) {
    int number = chain->memory_count;
    if (full(chain, number, CHAIN_MEMORIES)) return CHAIN_NONE;
    dnnl_status_t status = chain->lib->memory_create(&chain->memories[number], desc,
                                                     chain->lib->engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success) {
        chain->failed = true;
        return CHAIN_NONE;
    }
    chain->offsets[number] = UINT64_MAX;
    chain->memory_count++;
    return number;
}

int onednn_within(OnednnChain *chain, const_dnnl_memory_desc_t desc) {
    int number = onednn_given(chain, desc);
    if (number == CHAIN_NONE) return number;
    chain->offsets[number] = chain->workspace;
    uint64_t size = chain->lib->memory_desc_get_size(desc);
    chain->workspace += (size + CHAIN_ALIGN - 1) / CHAIN_ALIGN * CHAIN_ALIGN;
    return number;
}

int onednn_alias(OnednnChain *chain, const_dnnl_memory_desc_t desc, int memory) {
    int number = onednn_given(chain, desc);
    if (number != CHAIN_NONE) chain->offsets[number] = chain->offsets[memory];
    return number;
}

const_dnnl_memory_desc_t onednn_desc_part(OnednnChain *chain, const_dnnl_memory_desc_t whole,
                                          const dnnl_dims_t dims, const dnnl_dims_t offsets) {
    dnnl_memory_desc_t desc = NULL;
    if (full(chain, chain->desc_count, CHAIN_DESCS)) return NULL;
    dnnl_status_t status = chain->lib->memory_desc_create_submemory(&desc, whole, dims, offsets);
    return keep_desc(chain, status, desc);
}

dnnl_primitive_attr_t onednn_attr(OnednnChain *chain) {
    dnnl_primitive_attr_t attr = NULL;
    if (chain->failed || chain->lib->primitive_attr_create(&attr) != dnnl_success ||
        chain->lib->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) !=
            dnnl_success)
        chain->failed = true;
    return attr;
}

bool onednn_step(OnednnChain *chain, dnnl_status_t status, dnnl_primitive_desc_t desc) {
    if (status != dnnl_success) chain->failed = true;
    if (full(chain, chain->step_count, CHAIN_STEPS)) {
        if (desc) chain->lib->primitive_desc_destroy(desc);
        return false;
    }
    ChainStep *step = &chain->steps[chain->step_count++];
    step->desc = desc;
    if (chain->lib->primitive_create(&step->primitive, desc) != dnnl_success) {
        step->primitive = NULL;
        chain->failed = true;
    }
    return !chain->failed;
}

static ChainStep *last(const OnednnChain *chain) {
    return (ChainStep *)(uintptr_t)&chain->steps[chain->step_count - 1];
}

void onednn_args(OnednnChain *chain, const ChainArg *args, int count) {
    if (chain->failed) return;
    ChainStep *step = last(chain);
    for (int i = 0; i < count; i++)
        if (args[i].memory != CHAIN_NONE)
            step->args[step->count++] =
                (dnnl_exec_arg_t){args[i].arg, chain->memories[args[i].memory]};
    const_dnnl_memory_desc_t scratch =
        chain->lib->primitive_desc_query_md(step->desc, dnnl_query_scratchpad_md, 0);
    if (!scratch || chain->lib->memory_desc_get_size(scratch) == 0) return;
    int number = onednn_within(chain, scratch);
    if (number == CHAIN_NONE) return;
    step->args[step->count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, chain->memories[number]};
}

const_dnnl_memory_desc_t onednn_wanted(const OnednnChain *chain, dnnl_query_t what) {
    return chain->failed ? NULL : chain->lib->primitive_desc_query_md(last(chain)->desc, what, 0);
}

/* The last step's implementation, "brg:avx512_core". */
static const char *onednn_name(const OnednnChain *chain) {
    const char *name = "";
    if (!chain->failed)
        chain->lib->primitive_desc_query(last(chain)->desc, dnnl_query_impl_info_str, 0, &name);
    return name;
}

void onednn_refuse_reference(OnednnChain *chain) {
    if (strncmp(onednn_name(chain), "ref", 3) == 0) chain->failed = true;
}

void onednn_reorder(OnednnChain *chain, const_dnnl_memory_desc_t from_desc, int from,
                    const_dnnl_memory_desc_t to_desc, int to) {
    const Onednn *lib = chain->lib;
    dnnl_primitive_attr_t attr = onednn_attr(chain);
    dnnl_primitive_desc_t desc = NULL;
    if (chain->failed) return;
    dnnl_status_t status = lib->reorder_primitive_desc_create(&desc, from_desc, lib->engine,
                                                              to_desc, lib->engine, attr);
    lib->primitive_attr_destroy(attr);
    if (!onednn_step(chain, status, desc)) return;
    const ChainArg args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    onednn_args(chain, args, 2);
}

/* ---- weights --------------------------------------------------------------------------------- */

bool onednn_copy(const OnednnChain *chain, const_dnnl_memory_desc_t from_desc, const void *from,
                 const_dnnl_memory_desc_t to_desc, void *to) {
    const Onednn *lib = chain->lib;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t source = NULL, target = NULL;
    bool ok = lib->reorder_primitive_desc_create(&desc, from_desc, lib->engine, to_desc,
                                                 lib->engine, NULL) == dnnl_success &&
              lib->primitive_create(&primitive, desc) == dnnl_success &&
              lib->memory_create(&source, from_desc, lib->engine, (void *)(uintptr_t)from) ==
                  dnnl_success &&
              lib->memory_create(&target, to_desc, lib->engine, to) == dnnl_success;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
    ok = ok && lib->primitive_execute(primitive, chain->stream, 2, args) == dnnl_success &&
         lib->stream_wait(chain->stream) == dnnl_success;
    if (target) lib->memory_destroy(target);
    if (source) lib->memory_destroy(source);
    if (primitive) lib->primitive_destroy(primitive);
    if (desc) lib->primitive_desc_destroy(desc);
    return ok;
}

static uint64_t mix(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t onednn_layout_hash(const OnednnChain *chain, const_dnnl_memory_desc_t desc) {
    const Onednn *lib = chain->lib;
    const char *name = onednn_name(chain);
    const dnnl_query_t lists[] = {dnnl_query_dims, dnnl_query_strides, dnnl_query_padded_dims,
                                  dnnl_query_inner_blks, dnnl_query_inner_idxs};
    const dnnl_query_t counts[] = {dnnl_query_ndims_s32, dnnl_query_inner_nblks_s32};
    uint64_t hash = mix(UINT64_C(14695981039346656037), name, strlen(name));
    int rank = 0, blocks = 0;
    lib->memory_desc_query(desc, counts[0], &rank);
    lib->memory_desc_query(desc, counts[1], &blocks);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const dnnl_dims_t *list = NULL;
        int count = i < 3 ? rank : blocks;
        if (lib->memory_desc_query(desc, lists[i], &list) == dnnl_success && list)
            hash = mix(hash, *list, (size_t)count * sizeof **list);
    }
    return hash;
}

/* KernelPack: job->variant is the hash of pack_to. */
static bool pack(KernelCall *call, const KernelPackJob *job) {
    const OnednnChain *chain = call->prepared;
    int before = onednn_enter(chain->lib);
    bool ok = onednn_copy(chain, chain->pack_from, job->from->data, chain->pack_to, job->to);
    onednn_leave(chain->lib, before);
    return ok;
}

void onednn_refuse_other_weights(const KernelCall *call, OnednnChain *chain) {
    const OnednnChain *first = call->prepared;
    const_dnnl_memory_desc_t wanted = onednn_wanted(chain, dnnl_query_weights_md);
    if (!chain->failed && !chain->lib->memory_desc_equal(first->pack_to, wanted))
        chain->failed = true;
}

const void *onednn_pack_shared(KernelCall *call, uint32_t i, const_dnnl_memory_desc_t from) {
    OnednnChain *chain = call->prepared;
    if (chain->failed || !kernel_is_constant(call, i)) return NULL;
    chain->pack_from = from;
    chain->pack_to = onednn_wanted(chain, dnnl_query_weights_md);
    return kernel_share(call, i, pack, onednn_layout_hash(chain, chain->pack_to),
                        chain->lib->memory_desc_get_size(chain->pack_to));
}

/* ---- running --------------------------------------------------------------------------------- */

/* Bytes from one part's workspace to the next. */
static uint64_t workspace_step(const OnednnChain *first) {
    uint64_t most = 0;
    for (unsigned i = 0; i < first->parts; i++) {
        const OnednnChain *chain = onednn_part(first, i);
        if (chain->workspace > most) most = chain->workspace;
    }
    return align(most + 1);
}

void *onednn_workspace(KernelCall *call) {
    const OnednnChain *first = call->prepared;
    return kernel_workspace(call, first->parts * workspace_step(first));
}

void *onednn_at(const KernelCall *call, unsigned part, int memory, void *workspace) {
    const OnednnChain *first = call->prepared, *chain = onednn_part(first, part);
    return (char *)workspace + part * workspace_step(first) + chain->offsets[memory];
}

/* All parts of a call. */
typedef struct PartsRun {
    OnednnChain *first;
    char *workspace;
    uint64_t step;
    atomic_int status; /* of one that failed */
} PartsRun;

static void run_part(void *data, unsigned i, unsigned lane) {
    PartsRun *run = data;
    OnednnChain *chain = onednn_part(run->first, i);
    const Onednn *lib = chain->lib;
    (void)lane;
    for (int k = 0; k < chain->memory_count; k++)
        if (chain->offsets[k] != UINT64_MAX)
            onednn_set(chain, k, run->workspace + i * run->step + chain->offsets[k]);
    int before = onednn_enter(lib);
    dnnl_status_t status = dnnl_success;
    for (int k = 0; k < chain->step_count && status == dnnl_success; k++) {
        const ChainStep *step = &chain->steps[k];
        status = lib->primitive_execute(step->primitive, chain->stream, step->count, step->args);
    }
    if (status == dnnl_success) status = lib->stream_wait(chain->stream);
    onednn_leave(lib, before);
    if (status != dnnl_success) atomic_store(&run->status, (int)status);
}

bool onednn_chains_run(KernelCall *call, void *workspace) {
    OnednnChain *first = call->prepared;
    PartsRun run = {.first = first, .workspace = workspace, .step = workspace_step(first)};
    atomic_init(&run.status, dnnl_success);
    if (first->parts > 1)
        workers_run(call->workers, first->parts, run_part, &run);
    else
        run_part(&run, 0, 0);
    const int status = atomic_load(&run.status);
    if (status == dnnl_success) return true;
    return err_set(call->err, ERR_ENV, "oneDNN %s failed (status %d)", first->lib->text, status);
}

bool onednn_sums_exactly(const OnednnChain *chain, uint64_t depth) {
    enum { FLOAT_EXACT = 1 << 24 };
    return depth <= FLOAT_EXACT / (UINT8_MAX * -INT8_MIN) ||
           strncmp(onednn_name(chain), "brg", 3) == 0;
}

void onednn_flip(void *to, const void *from, uint64_t count) {
    unsigned char *target = to;
    const unsigned char *source = from;
    for (uint64_t i = 0; i < count; i++) target[i] = source[i] ^ 128;
}

bool onednn_dims(const KernelTensor *tensor, dnnl_dims_t dims) {
    if (tensor->rank > RANK_MOST || tensor->count > INT32_MAX) return false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        dims[i] = tensor->dims[i];
        if (dims[i] < 1 || dims[i] > INT32_MAX) return false;
    }
    return true;
}
