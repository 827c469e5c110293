// SPDX-License-Identifier: Apache-2.0
/* Loops of reductions; see kernel_reduce.h. */
#include "kernel_reduce.h"

typedef struct Group {
    uint64_t size, stride;
    bool reduced;
} Group;

typedef struct Groups {
    const Group *items; /* from the last axis to the first */
    uint32_t count;
} Groups;

static uint32_t make_groups(const KernelTensor *x, const bool *reduced, Group *groups) {
    uint32_t count = 0;
    uint64_t stride = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        uint64_t dim = (uint64_t)x->dims[i];
        if (dim == 1) continue;
        if (count && groups[count - 1].reduced == reduced[i])
            groups[count - 1].size *= dim;
        else
            groups[count++] = (Group){dim, stride, reduced[i]};
        stride *= dim;
    }
    return count;
}

static uint64_t make_walk(Arena *arena, Groups groups, bool reduced, ReduceWalk *walk) {
    uint64_t *sizes = ARENA_ARRAY(arena, uint64_t, groups.count + 1);
    uint64_t *strides = ARENA_ARRAY(arena, uint64_t, groups.count + 1);
    uint64_t product = 1;
    *walk = (ReduceWalk){.sizes = sizes, .strides = strides};
    for (uint32_t i = groups.count; i-- > 0;) {
        if (groups.items[i].reduced != reduced) continue;
        product *= groups.items[i].size;
        sizes[walk->rank] = groups.items[i].size;
        strides[walk->rank++] = groups.items[i].stride;
    }
    walk->at = ARENA_ARRAY(arena, uint64_t, walk->rank + 1);
    return product;
}

void reduce_loops(Arena *arena, const KernelTensor *x, const bool *reduced, ReduceLoops *loops) {
    Group *groups = ARENA_ARRAY(arena, Group, x->rank + 1);
    uint32_t count = make_groups(x, reduced, groups);
    *loops = (ReduceLoops){.length = 1, .width = 1};
    if (count && groups[0].reduced)
        loops->length = groups[0].size;
    else if (count)
        loops->width = groups[0].size;
    Groups rest = {groups + 1, count ? count - 1 : 0};
    loops->outer_count = make_walk(arena, rest, false, &loops->outer);
    loops->run_count = make_walk(arena, rest, true, &loops->runs);
    if (!loops->length) loops->run_count = 0; /* any number of runs of nothing */
    loops->results = loops->outer_count * loops->width;
    loops->reduced = loops->run_count * loops->length;
}

bool reduce_mark(KernelCall *call, uint32_t count, const int64_t *axes, bool *reduced) {
    uint32_t axis;
    for (uint32_t i = 0; i < count; i++) {
        if (!kernel_axis(call, axes[i], call->inputs[0].rank, &axis)) return false;
        reduced[axis] = true;
    }
    return true;
}

AxisLoops axis_loops(const KernelTensor *x, uint32_t axis) {
    return (AxisLoops){kernel_span(x, 0, axis), (uint64_t)x->dims[axis],
                       kernel_span(x, axis + 1, x->rank)};
}
