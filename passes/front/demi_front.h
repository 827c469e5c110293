// SPDX-License-Identifier: Apache-2.0
/* What demi's own tools and trials may see behind demi.h's handles; not installed. */
#ifndef DEMI_FRONT_H
#define DEMI_FRONT_H

#include "arena.h"
#include "channel_data.h"
#include "data_rounding.h"
#include "demi.h"
#include "err.h"
#include "graph.h"
#include "source.h"

/* Whether the handle's model is whole. One that an error or a cancelled call left half rewritten, or
 * that was compiled, is not: then false, with the error set. Every public function asks first. */
bool demi_front_is_whole(const DemiModel *model, Err *err);

/* The model behind the handle, owned by it; read-only for tools that print more than demi.h tells.
 */
const Model *demi_front_model(const DemiModel *model);

/* The same, whose memory jumps to this trap until the next call that is given the handle. */
Model *demi_front_lend(DemiModel *model, MemTrap *trap);

/* demi_convert for who asks what it does to the graph: nodes and values are what they would be, all
 * weights being finite, and constants may hold anything. */
DemiStatus demi_front_sketch(DemiModel *model, const DemiConvertOptions *options, DemiError *error);

/* The passes of demi_convert up to equalize, behind which values are what they will be when they are quantized;
 * none, where it is not one of them. With `data` it is, and chooses scales by them; data->arena's trap is another
 * one afterwards. *changed: whether it scaled any. */
DemiStatus demi_front_equalize(DemiModel *model, const DemiConvertOptions *options,
                               ChannelData *data, bool *changed, DemiError *error);

/* Behind the handle. Of conversions that have no source of moments, nothing changes in it. */
struct DemiRoundedWeights {
    Arena arena; /* owns this */
    DataRounding rounding;
    struct DemiRoundedItem *items; /* [count], for callers (demi_trials.h) */
    size_t count;
};

/* demi_compile to memory of this process, if `map` is set: files that constants stay in lie behind the
 * plan, as an ArtifactSink's `map` has it. */
typedef bool DemiMapFn(void *user, uint64_t size, const MappedFile *files, size_t count, Err *err);
typedef struct DemiPlanSink {
    DemiWriteFn write;
    DemiMapFn *map; /* NULL: the plan holds all */
    void *user;     /* of both */
} DemiPlanSink;
DemiStatus demi_front_compile(DemiModel *model, const DemiCompileOptions *options,
                              const DemiPlanSink *sink, DemiError *error);

#endif
