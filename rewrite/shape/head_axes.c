// SPDX-License-Identifier: Apache-2.0
/* Axes of attention's tensors; see head_axes.h. */
#include "head_axes.h"

static bool take(HeadAxes *axes, uint32_t i, int64_t axis, uint32_t rank) {
    if (axis < -1 || axis >= (int64_t)rank) return false;
    for (uint32_t k = 0; axis >= 0 && k < i; k++)
        if (axes->axis[k] == axis) return false;
    axes->axis[i] = (int32_t)axis;
    return true;
}

bool head_axes_find(const AttrInts *given, uint32_t rank, HeadAxes *axes) {
    const bool listed = given->present;
    if ((listed && given->count != HEAD_AXES) || rank > HEAD_AXES + 1) return false;
    uint32_t named = 0;
    int64_t sum = 0;
    axes->rest = -1;
    for (uint32_t i = 0; i < HEAD_AXES; i++) {
        int64_t last = (int64_t)rank - HEAD_AXES + i;
        if (!take(axes, i, listed ? given->items[i] : last < 0 ? -1 : last, rank)) return false;
        if (axes->axis[i] < 0) continue;
        named++;
        sum += axes->axis[i];
    }
    if (named + 1 < rank) return false;
    if (named < rank) axes->rest = (int32_t)((int64_t)rank * (rank - 1) / 2 - sum);
    return true;
}

uint32_t head_axes_rank(const AttrInts *given) {
    uint32_t rank = 0;
    HeadAxes axes;
    if (!given->present) return HEAD_AXES;
    for (uint32_t i = 0; i < given->count; i++) rank += given->items[i] >= 0;
    return head_axes_find(given, rank, &axes) ? rank : 0;
}
