// SPDX-License-Identifier: Apache-2.0
/* TopK and Unique, of any dtype that has an order. Equal elements keep their order, so results do
 * not depend on how they are sorted; NaN is larger than any number. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_order.h"
#include "kernel_pace.h"
#include "kernel_strided.h"

/* ---- TopK ------------------------------------------------------------------------------------ */

/* An element of a lane. A smaller key is wanted more; of equal keys, the smaller index. */
typedef struct Candidate {
    uint64_t key;
    int64_t index;
} Candidate;

/* Of an element that moves in a heap, in steps of one that stays where it is. */
enum { HEAP_WORK = 16 };

static bool worse(Candidate a, Candidate b) {
    return a.key > b.key || (a.key == b.key && a.index > b.index);
}

/* The worst of heap[0, size) at the top, places from `at` on down being in order but for it. */
static void sift(Candidate *heap, uint64_t at, uint64_t size) {
    Candidate moved = heap[at];
    for (uint64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && worse(heap[child + 1], heap[child])) child++;
        if (!worse(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* One lane: elements first + i * step, and room for their keys. */
typedef struct Lane {
    uint64_t first, step, size, k;
    uint64_t *keys; /* [size] */
    KernelPace *pace;
} Lane;

/* Leaves the best k of a lane in order in heap. */
static void lane_select(const KernelTensor *in, Lane lane, bool largest, Candidate *heap) {
    uint64_t flip = largest ? UINT64_MAX : 0;
    order_keys(in, (const uint64_t[]){lane.first, lane.step, lane.size}, lane.keys);
    for (uint64_t i = 0; i < lane.k; i++) heap[i] = (Candidate){lane.keys[i] ^ flip, (int64_t)i};
    for (uint64_t i = lane.k / 2; i-- > 0;) sift(heap, i, lane.k);
    for (uint64_t i = lane.k; i < lane.size; i++) {
        uint64_t key = lane.keys[i] ^ flip;
        kernel_pace(lane.pace, 1);
        if (key >= heap[0].key) continue; /* equal ones that come later are worse */
        heap[0] = (Candidate){key, (int64_t)i};
        sift(heap, 0, lane.k);
    }
    for (uint64_t left = lane.k; left-- > 1;) {
        Candidate top = heap[0];
        kernel_pace(lane.pace, HEAP_WORK);
        heap[0] = heap[left];
        heap[left] = top;
        sift(heap, 0, left);
    }
}

bool kernel_topk(KernelCall *call) {
    const TopKAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *values = kernel_result(call, 0), *indices = kernel_result(call, 1);
    const KernelTensor *any = values ? values : indices;
    uint32_t axis;
    if (!any) return true;
    if (!kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
    if (indices && indices->dtype != DTYPE_INT64) return kernel_fail(call, "output 1 is not int64");
    if (in->dtype == DTYPE_STRING) return kernel_fail(call, "strings have no largest elements");
    if (any->count == 0) return true;
    if (any->dims[axis] > in->dims[axis])
        return kernel_fail(call, "%lld of %lld elements", (long long)any->dims[axis],
                           (long long)in->dims[axis]);
    size_t size = kernel_element_size(in->dtype);
    uint64_t inner = kernel_span(in, axis + 1, in->rank);
    KernelPace pace = {call, 0};
    Lane lane = {0, inner, (uint64_t)in->dims[axis], (uint64_t)any->dims[axis], NULL, &pace};
    lane.keys = ARENA_ARRAY(call->scratch, uint64_t, lane.size);
    Candidate *heap = ARENA_ARRAY(call->scratch, Candidate, lane.k);
    for (uint64_t row = 0; row < in->count / lane.size; row++) {
        lane.first = row / inner * inner * lane.size + row % inner;
        lane_select(in, lane, attrs->largest != 0, heap);
        uint64_t to = row / inner * inner * lane.k + row % inner;
        for (uint64_t k = 0; k < lane.k; k++, to += inner) {
            uint64_t from = lane.first + (uint64_t)heap[k].index * inner;
            if (values)
                memcpy((char *)values->data + to * size, (char *)in->data + from * size, size);
            if (indices) ((int64_t *)indices->data)[to] = heap[k].index;
        }
    }
    return true;
}

/* ---- Unique ---------------------------------------------------------------------------------- */

/* The input as `count` items of `width` elements each, contiguous. */
typedef struct Items {
    KernelTensor data;
    uint64_t count, width;
    KernelPace *pace;
} Items;

static int compare_items(const void *context, uint64_t a, uint64_t b) {
    const Items *items = context;
    bool text = items->data.dtype == DTYPE_STRING;
    unsigned parts = items->data.dtype == DTYPE_COMPLEX64 || items->data.dtype == DTYPE_COMPLEX128;
    const KernelString *strings = items->data.data;
    for (uint64_t i = 0; i < items->width; i++) {
        uint64_t left = a * items->width + i, right = b * items->width + i;
        int order = text ? order_strings(&strings[left], &strings[right]) : 0;
        for (unsigned part = 0; !text && !order && part <= parts; part++) {
            uint64_t x = order_key(&items->data, left, part);
            uint64_t y = order_key(&items->data, right, part);
            order = (x > y) - (x < y);
        }
        kernel_pace(items->pace, 4);
        if (order) return order;
    }
    return 0;
}

static StridedWalk item_walk(KernelCall *call, const Items *items, uint64_t inner, bool back) {
    StridedWalk walk = strided_new(call, 3);
    int64_t count = (int64_t)items->count, width = (int64_t)items->width, in = (int64_t)inner;
    int64_t outer = in ? width / in : 0;
    walk.axes[0] = (StridedAxis){outer, count * in, in};
    walk.axes[1] = (StridedAxis){count, in, width};
    walk.axes[2] = (StridedAxis){in, 1, 1};
    for (uint32_t i = 0; !back && i < 3; i++) {
        int64_t swap = walk.axes[i].to;
        walk.axes[i].to = walk.axes[i].from;
        walk.axes[i].from = swap;
    }
    return walk;
}

/* The distinct items: the first item of each, how many there are of it; and each item's number. */
typedef struct Groups {
    uint64_t count;
    int64_t *first, *size; /* [count] */
    int64_t *of;           /* [items] */
} Groups;

/* Numbers in order of value, or of where a value comes first. */
static Groups find_groups(KernelCall *call, const Items *items, bool sorted) {
    Groups groups = {.first = ARENA_ARRAY(call->scratch, int64_t, items->count),
                     .size = ARENA_ARRAY(call->scratch, int64_t, items->count),
                     .of = ARENA_ARRAY(call->scratch, int64_t, items->count)};
    int64_t *first = ARENA_ARRAY(call->scratch, int64_t, items->count); /* item: its like */
    uint64_t *order = order_sort(call, items->count, compare_items, items), start = 0;
    for (uint64_t i = 0; i < items->count; i++) {
        if (i && compare_items(items, order[i - 1], order[i]) != 0) start = i;
        first[order[i]] = (int64_t)order[start]; /* stable: the smallest index */
    }
    for (uint64_t i = 0; i < items->count; i++) {
        uint64_t item = sorted ? order[i] : i;
        if (first[item] != (int64_t)item) continue;
        groups.of[item] = (int64_t)groups.count;
        groups.first[groups.count++] = (int64_t)item;
    }
    for (uint64_t i = 0; i < items->count; i++) {
        groups.of[i] = groups.of[first[i]];
        groups.size[groups.of[i]]++;
    }
    return groups;
}

static bool give_ints(KernelCall *call, uint32_t i, const int64_t *numbers, uint64_t count) {
    const int64_t dim = (int64_t)count;
    if (!kernel_result(call, i)) return true;
    if (!kernel_output(call, i, 1, &dim)) return false;
    if (call->outputs[i].dtype != DTYPE_INT64)
        return kernel_fail(call, "output %u is not int64", i);
    if (count) memcpy(call->outputs[i].data, numbers, count * sizeof *numbers);
    return true;
}

/* Y: the groups' first items, along the axis again. */
static bool give_items(KernelCall *call, const Items *items, const Groups *groups, int64_t axis) {
    const KernelTensor *in = &call->inputs[0];
    int64_t *dims = arena_copy(call->scratch, in->dims, in->rank * sizeof *dims);
    int64_t flat = (int64_t)groups->count;
    uint64_t bytes = items->width * kernel_element_size(in->dtype);
    if (axis >= 0) dims[axis] = flat;
    if (!kernel_result(call, 0)) return true;
    if (!kernel_output(call, 0, axis >= 0 ? in->rank : 1, axis >= 0 ? dims : &flat)) return false;
    if (call->outputs[0].count == 0) return true;
    char *picked = arena_array(call->scratch, groups->count, bytes);
    for (uint64_t i = 0; i < groups->count; i++)
        memcpy(picked + i * bytes, (char *)items->data.data + (uint64_t)groups->first[i] * bytes,
               bytes);
    Items chosen = {.count = groups->count, .width = items->width};
    uint64_t inner = axis >= 0 ? kernel_span(in, (uint32_t)axis + 1, in->rank) : 1;
    StridedWalk walk = item_walk(call, &chosen, inner, true);
    strided_copy(&walk, call->outputs[0].data, picked, kernel_element_size(in->dtype));
    return true;
}

bool kernel_unique(KernelCall *call) {
    const UniqueAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelPace pace = {call, 0};
    Items items = {.data = *in, .count = in->count, .width = 1, .pace = &pace};
    uint32_t axis = 0;
    bool flat = attrs->axis == ATTR_ABSENT;
    if (!flat) {
        if (!kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
        uint64_t inner = kernel_span(in, axis + 1, in->rank);
        items.count = (uint64_t)in->dims[axis];
        items.width = kernel_span(in, 0, axis) * inner;
        size_t size = kernel_element_size(in->dtype);
        items.data.data = arena_array(call->scratch, in->count + 1, size);
        StridedWalk walk = item_walk(call, &items, inner, false);
        strided_copy(&walk, items.data.data, in->data, size);
    }
    Groups groups = find_groups(call, &items, attrs->sorted != 0);
    return give_items(call, &items, &groups, flat ? -1 : (int64_t)axis) &&
           give_ints(call, 1, groups.first, groups.count) &&
           give_ints(call, 2, groups.of, items.count) &&
           give_ints(call, 3, groups.size, groups.count);
}
