// SPDX-License-Identifier: Apache-2.0
/* Inside of demi_plugin.h: passes of plug-ins as rows of a pass table, and the functions they call.
 *
 * plugin_load.c makes PassInfo rows of what a plug-in describes; plugin_run.c runs one; the
 * functions of DemiApi are in plugin_graph.c (reading the structure), plugin_edit.c and
 * plugin_attr.c (changing it) and plugin_data.c (types and tensors).
 *
 * A function that may allocate begins with ENTER: out of memory comes back to it, not to a frame
 * beyond the plug-in's, and becomes the run's error. Such a function calls no other one that does
 * so.
 */
#ifndef DEMI_PLUGIN_INSIDE_H
#define DEMI_PLUGIN_INSIDE_H

#include <setjmp.h>

#include "demi_plugin.h"
#include "pass.h"

/* A row of a pass table. All but `run` is copied, so that nothing dangles when the object closes.
 */
typedef struct PluginPass {
    PassInfo info; /* first: PassCtx.pass points at it */
    DemiScope scope;
    const char *file;   /* the shared object, for messages */
    const DemiApi *api; /* what it calls */
    bool (*run)(const DemiApi *api, DemiPassRun *run, DemiGraph *graph);
} PluginPass;

struct DemiPassRun {
    PassCtx *ctx;
    const PluginPass *pass;
    const void *options;
    MemTrap trap; /* of the model's and the scratch arena while the plug-in runs */
    Err err;      /* the first failure; from then on nothing is changed */
};

/* Leaves with `failure` where the run has failed, or does when memory runs out below. */
#define ENTER(run, failure)                                                                        \
    do {                                                                                           \
        if ((run)->err.code != ERR_NONE) return failure;                                           \
        if (setjmp((run)->trap.env)) return err_out_of_memory(&(run)->err), failure;               \
    } while (0)

/* The run fails by a plug-in's misuse of a function. Returns false. */
bool plugin_misuse(DemiPassRun *run, const char *function, const char *what);

/* The scratch and the model's arena of a run. */
static inline Arena *plugin_scratch(const DemiPassRun *run) {
    return run->ctx->scratch;
}
static inline Arena *plugin_arena(const DemiPassRun *run) {
    return &run->ctx->model->arena;
}

static inline Sym plugin_sym(const DemiPassRun *run, const char *text) {
    return sym_intern_cstr(&run->ctx->model->syms, text);
}

/* A copy of a file's bytes that a NUL follows, in scratch memory; *size may be NULL. */
const char *plugin_text(DemiPassRun *run, Bytes bytes, size_t *size);

/* The row's run function: PassInfo.run of every plug-in's pass. */
bool plugin_pass_run(PassCtx *ctx, const void *options, Err *err);

typedef VEC(const PassInfo *) PassRows;

typedef struct PluginSource {
    const char *file; /* for messages; in the arena */
    DemiPluginEntry entry;
    const DemiApi *api;
} PluginSource;

/* The table that plug-ins call. */
const DemiApi *plugin_api_new(Arena *arena);

/* Opens a shared object, which closes with `arena`. ERR_USAGE with what is wrong with it. */
bool plugin_open(const char *path, Arena *arena, PluginSource *source, Err *err);

/* Appends the plug-in's passes to `rows`, which hold those that there are already; all in `arena`.
 * ERR_USAGE naming the pass whose description is faulty, or whose name is taken: the rows are then
 * as they were. */
bool plugin_describe(const PluginSource *source, Arena *arena, PassRows *rows, Err *err);

/* Handles are the model's own structures under names that the outside knows. */
#define HANDLE(Outer, Inner, name)                                                                 \
    static inline Inner *name##_in(Outer *handle) {                                                \
        return (Inner *)handle;                                                                    \
    }                                                                                              \
    static inline const Inner *name##_of(const Outer *handle) {                                    \
        return (const Inner *)handle;                                                              \
    }                                                                                              \
    static inline Outer *name##_out(Inner *inner) {                                                \
        return (Outer *)inner;                                                                     \
    }
HANDLE(DemiGraph, Graph, graph)
HANDLE(DemiNode, Node, node)
HANDLE(DemiValue, Value, value)
HANDLE(DemiUse, Use, use)
HANDLE(DemiAttr, Attr, attr)
HANDLE(DemiFunction, Function, function)
#undef HANDLE
static inline const Tensor *tensor_of(const DemiTensor *tensor) {
    return (const Tensor *)tensor;
}
static inline const DemiTensor *tensor_out(const Tensor *tensor) {
    return (const DemiTensor *)tensor;
}
static inline const Type *type_of(const DemiType *type) {
    return (const Type *)type;
}
static inline const DemiType *type_out(const Type *type) {
    return (const DemiType *)type;
}

/* Fill a DemiApi: each file its functions. */
void plugin_fill_run(DemiApi *api);
void plugin_fill_graph(DemiApi *api);
void plugin_fill_edit(DemiApi *api);
void plugin_fill_attr(DemiApi *api);
void plugin_fill_data(DemiApi *api);

#endif
