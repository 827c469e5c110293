// SPDX-License-Identifier: Apache-2.0
/* Operators that move data on a CUDA device: Transpose, Concat, Split, Slice, Gather, Pad,
 * Tile, DepthToSpace and SpaceToDepth, Trilu; and ConstantOfShape, which is a pad of nothing. */
#include <string.h>

#include "cuda_broadcast.h"
#include "cuda_functions.h"
#include "move_args.h"
#include "pad_axes.h"

enum { THREADS = 256, TILE = 32, ROWS = 8, TURN_FEW = 8, GRID = 1 << 20 };

/* ---- strides --------------------------------------------------------------------------------- */

/* y, contiguous, of x by strides: axes of y with the strides that x has along them. */
typedef struct Strided {
    BroadcastArgs args;
    bool fits;
} Strided;

static Strided strided(const void *x, void *y) {
    return (Strided){.args = {.inputs = {x}, .y = y, .count = 1}, .fits = true};
}

static void push_axis(Strided *s, int64_t size, int64_t stride) {
    BroadcastArgs *a = &s->args;
    a->count *= size;
    if (size == 1) return;
    if (a->rank && a->strides[0][a->rank - 1] == stride * size) {
        a->sizes[a->rank - 1] *= size;
        a->strides[0][a->rank - 1] = stride;
        return;
    }
    s->fits &= a->rank < POINTWISE_RANK;
    if (!s->fits) return;
    a->sizes[a->rank] = size;
    a->strides[0][a->rank++] = stride;
}

static bool run_strided(KernelCall *call, Strided *s, Dtype dtype) {
    BroadcastArgs *a = &s->args;
    if (!s->fits)
        return kernel_decline(call, "the device does not support operands with so many axes");
    if (!a->rank) a->sizes[a->rank++] = 1;
    const CudaName name = cuda_name("expand", cuda_size_suffix(dtype), "");
    const CudaLaunch launch = {.family = CUDA_pointwise,
                               .kernel = name.text,
                               .blocks = {cuda_blocks_full(call, (uint64_t)a->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = a};
    return !a->count || cuda_launch(call, &launch);
}

/* ---- Transpose ------------------------------------------------------------------------------- */

/* Whether it exchanges two axes behind batches: y's axes, merged, are (batches, columns, rows) with x's
 * strides (rows * columns, 1, columns). */
static bool is_turn(const BroadcastArgs *a, TransposeArgs *turn) {
    const int32_t last = a->rank - 1;
    if (a->rank < 2 || a->rank > 3 || a->strides[0][last - 1] != 1) return false;
    const int64_t columns = a->sizes[last - 1], rows = a->sizes[last];
    if (a->strides[0][last] != columns) return false;
    if (a->rank == 3 && a->strides[0][0] != rows * columns) return false;
    *turn = (TransposeArgs){a->inputs[0], a->y, a->rank == 3 ? a->sizes[0] : 1, rows, columns};
    return true;
}

bool cuda_transpose(KernelCall *call) {
    const TransposeAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    Strided s = strided(x->data, y->data);
    TransposeArgs turn;
    if (attrs->perm.present && attrs->perm.count != x->rank)
        return kernel_fail(call, "the length of perm is not the input's rank");
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t axis =
            attrs->perm.present ? attrs->perm.items[i] : (int64_t)(x->rank - 1 - i);
        uint32_t from;
        if (!kernel_axis(call, axis, x->rank, &from)) return false;
        push_axis(&s, x->dims[from], (int64_t)kernel_stride(x, from));
    }
    if (!y->count || !s.fits || !is_turn(&s.args, &turn)) return run_strided(call, &s, y->dtype);
    const uint64_t tiles = (uint64_t)((turn.rows + TILE - 1) / TILE) *
                           (uint64_t)((turn.columns + TILE - 1) / TILE) * (uint64_t)turn.batches;
    const bool few = turn.rows <= TURN_FEW;
    const CudaName name = cuda_name(few ? "turn_few" : "turn", cuda_size_suffix(y->dtype), "");
    CudaLaunch launch = {.family = CUDA_move,
                         .kernel = name.text,
                         .blocks = {tiles < GRID ? (uint32_t)tiles : GRID},
                         .threads = {TILE, ROWS},
                         .args = &turn};
    if (few) {
        const uint64_t pixels = (uint64_t)turn.batches * (uint64_t)turn.columns;
        launch.blocks[0] = cuda_blocks_full(call, pixels, THREADS, 1);
        launch.threads[0] = THREADS;
        launch.threads[1] = 1;
    }
    return cuda_launch(call, &launch);
}

/* ---- Tile, DepthToSpace, SpaceToDepth -------------------------------------------------------- */

bool cuda_repeat(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    Strided s = strided(x->data, y->data);
    for (uint32_t i = 0; y->count && i < x->rank; i++) {
        push_axis(&s, y->dims[i] / x->dims[i], 0);
        push_axis(&s, x->dims[i], (int64_t)kernel_stride(x, i));
    }
    return !y->count || run_strided(call, &s, y->dtype);
}

/* Pictures of (N, C, H, row in block, W, column in block), and channels by the mode. */
enum { IMAGE, CHANNEL, ROW, ROW_IN, COLUMN, COLUMN_IN, DEPTH_AXES };

/* y's axes in their order, each of so many elements, so far apart in x. */
static bool move_blocks(KernelCall *call, const int64_t sizes[DEPTH_AXES],
                        const int64_t strides[DEPTH_AXES], const int order[DEPTH_AXES]) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    Strided s = strided(x->data, y->data);
    for (int i = 0; i < DEPTH_AXES; i++) push_axis(&s, sizes[order[i]], strides[order[i]]);
    return !y->count || run_strided(call, &s, y->dtype);
}

/* `depth` is the tensor of many channels, `space` the one of large pictures. */
static bool block_sizes(KernelCall *call, const KernelTensor *depth, const KernelTensor *space,
                        int64_t sizes[DEPTH_AXES]) {
    const DepthAttrs *attrs = call->attrs;
    const int64_t block = attrs->blocksize;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (block < 1) return kernel_fail(call, "blocksize is %lld", (long long)block);
    const int64_t all[] = {depth->dims[0], space->dims[1], depth->dims[2],
                           block,          depth->dims[3], block};
    memcpy(sizes, all, sizeof all);
    return true;
}

bool cuda_depth_to_space(KernelCall *call) {
    const DepthAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    static const int order[] = {IMAGE, CHANNEL, ROW, ROW_IN, COLUMN, COLUMN_IN};
    int64_t sizes[DEPTH_AXES];
    if (!block_sizes(call, x, y, sizes)) return false;
    const int64_t block = attrs->blocksize, wide = x->dims[3], area = x->dims[2] * wide;
    const bool crd = attrs->mode == COLUMN_FIRST;
    const int64_t part = area * (crd ? 1 : y->dims[1]);
    const int64_t strides[] = {
        x->dims[1] * area, crd ? block * block * area : area, wide, block * part, 1, part};
    return move_blocks(call, sizes, strides, order);
}

bool cuda_space_to_depth(KernelCall *call) {
    const DepthAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    static const int depth_first[] = {IMAGE, ROW_IN, COLUMN_IN, CHANNEL, ROW, COLUMN};
    static const int column_first[] = {IMAGE, CHANNEL, ROW_IN, COLUMN_IN, ROW, COLUMN};
    int64_t sizes[DEPTH_AXES];
    if (!block_sizes(call, y, x, sizes)) return false;
    const int64_t block = attrs->blocksize, wide = x->dims[3], area = x->dims[2] * wide;
    const int64_t strides[] = {x->dims[1] * area, area, block * wide, wide, block, 1};
    return move_blocks(call, sizes, strides,
                       attrs->mode == COLUMN_FIRST ? column_first : depth_first);
}

/* ---- Concat, Split --------------------------------------------------------------------------- */

/* Rows that are moved together, sizes in bytes. */
typedef struct Moves {
    PartsArgs args;
    uint32_t count;
} Moves;

/* In elements as large as runs and addresses allow. */
static bool move_all(KernelCall *call, Moves *moves) {
    static const char *const names[] = {"rows_x1", "rows_x2", "rows_x4", "rows_x8", "rows_x16"};
    uint64_t all = 0, most = 0;
    uint32_t level = 0;
    for (uint32_t i = 0; i < moves->count; i++) {
        const RowsArgs *a = &moves->args.parts[i];
        all |= (uint64_t)(uintptr_t)a->x | (uint64_t)(uintptr_t)a->y | (uint64_t)a->width |
               (uint64_t)a->x_pitch | (uint64_t)a->y_pitch;
    }
    while (level < 4 && !(all >> level & 1)) level++;
    for (uint32_t i = 0; i < moves->count; i++) {
        RowsArgs *a = &moves->args.parts[i];
        a->width >>= level;
        a->x_pitch >>= level;
        a->y_pitch >>= level;
        if ((uint64_t)(a->rows * a->width) > most) most = (uint64_t)(a->rows * a->width);
    }
    const CudaLaunch launch = {.family = CUDA_move,
                               .kernel = names[level],
                               .blocks = {cuda_blocks_full(call, most, THREADS, 1), moves->count},
                               .threads = {THREADS},
                               .args = &moves->args};
    moves->count = 0;
    return !most || cuda_launch(call, &launch);
}

static bool move_rows(KernelCall *call, Moves *moves, const RowsArgs *rows, size_t size) {
    RowsArgs *a = &moves->args.parts[moves->count++];
    *a = *rows;
    a->width *= (int64_t)size;
    a->x_pitch *= (int64_t)size;
    a->y_pitch *= (int64_t)size;
    return moves->count < ROWS_PARTS || move_all(call, moves);
}

bool cuda_concat(KernelCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0];
    const size_t size = kernel_element_size(y->dtype);
    Moves moves = {.count = 0};
    uint32_t axis;
    uint64_t offset = 0;
    if (!kernel_axis(call, attrs->axis, y->rank, &axis)) return false;
    const int64_t inner = (int64_t)kernel_span(y, axis + 1, y->rank);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *x = &call->inputs[i];
        const int64_t width = x->dims[axis] * inner;
        if (!x->count) continue;
        const RowsArgs args = {x->data,
                               (char *)y->data + offset * size,
                               (int64_t)kernel_span(y, 0, axis),
                               width,
                               width,
                               inner * y->dims[axis]};
        if (!move_rows(call, &moves, &args, size)) return false;
        offset += (uint64_t)width;
    }
    return !moves.count || move_all(call, &moves);
}

/* Where a part begins follows from the outputs' own sizes; those that nobody wants have equal parts. */
bool cuda_split(KernelCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *given = kernel_input(call, 1);
    const size_t size = kernel_element_size(x->dtype);
    Moves moves = {.count = 0};
    uint32_t axis;
    int64_t offset = 0;
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    const int64_t inner = (int64_t)kernel_span(x, axis + 1, x->rank);
    const int64_t *sizes = given ? kernel_ints(call, given) : attrs->split.items;
    const uint64_t count = given ? given->count : attrs->split.count;
    const int64_t parts = (int64_t)call->output_count, each = (x->dims[axis] + parts - 1) / parts;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const KernelTensor *y = kernel_result(call, i);
        const int64_t length = y ? y->dims[axis] : i < count ? sizes[i] : each;
        if (length < 0 || length > x->dims[axis] - offset)
            return kernel_fail(call, "parts do not fit");
        if (y && y->count) {
            const RowsArgs args = {(const char *)x->data + (size_t)(offset * inner) * size,
                                   y->data,
                                   (int64_t)kernel_span(x, 0, axis),
                                   length * inner,
                                   inner * x->dims[axis],
                                   length * inner};
            if (!move_rows(call, &moves, &args, size)) return false;
        }
        offset += length;
    }
    return !moves.count || move_all(call, &moves);
}

/* ---- Slice ----------------------------------------------------------------------------------- */

typedef struct SliceLists {
    const int64_t *starts, *axes, *steps; /* axes and steps may be NULL */
    uint64_t count;
} SliceLists;

/* The first element of a cut, from the end where it is negative, as the processor's kernel has it. */
static int64_t first_of(int64_t start, int64_t dim) {
    if (start < 0) start = start < -dim ? 0 : start + dim;
    return start > dim - 1 ? dim - 1 : start;
}

static bool slice(KernelCall *call, const SliceLists *lists) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t *starts = ARENA_ARRAY(call->scratch, int64_t, x->rank + 1);
    int64_t *steps = ARENA_ARRAY(call->scratch, int64_t, x->rank + 1);
    uint64_t first = 0;
    for (uint32_t i = 0; i < x->rank; i++) steps[i] = 1;
    for (uint64_t i = 0; i < lists->count; i++) {
        uint32_t axis;
        const int64_t wanted = lists->axes ? lists->axes[i] : (int64_t)i;
        if (!kernel_axis(call, wanted, x->rank, &axis)) return false;
        steps[axis] = lists->steps ? lists->steps[i] : 1;
        if (!steps[axis]) return kernel_fail(call, "a step of 0");
        starts[axis] = first_of(lists->starts[i], x->dims[axis]);
    }
    if (!y->count) return true;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t span, last;
        if (__builtin_mul_overflow(y->dims[i] - 1, steps[i], &span) ||
            __builtin_add_overflow(starts[i], span, &last) || last < 0 || last >= x->dims[i])
            return kernel_fail(call, "axis %u is sliced beyond its elements", i);
        first += (uint64_t)starts[i] * kernel_stride(x, i);
    }
    Strided s = strided((const char *)x->data + first * kernel_element_size(x->dtype), y->data);
    for (uint32_t i = 0; i < x->rank; i++)
        push_axis(&s, y->dims[i], y->dims[i] > 1 ? steps[i] * (int64_t)kernel_stride(x, i) : 0);
    return run_strided(call, &s, y->dtype);
}

bool cuda_slice_attr(KernelCall *call) {
    const SliceAttrs *attrs = call->attrs;
    const SliceLists lists = {attrs->starts.items, attrs->axes.present ? attrs->axes.items : NULL,
                              NULL, attrs->starts.count};
    if (attrs->axes.present && attrs->axes.count != lists.count)
        return kernel_fail(call, "axes and starts do not fit");
    return slice(call, &lists);
}

static bool read_list(KernelCall *call, uint32_t i, uint64_t count, const int64_t **list) {
    const KernelTensor *tensor = kernel_input(call, i);
    *list = NULL;
    if (!tensor) return true;
    if (tensor->count != count) return kernel_fail(call, "its lists have different lengths");
    *list = kernel_ints(call, tensor);
    return *list != NULL;
}

bool cuda_slice(KernelCall *call) {
    SliceLists lists = {.count = call->inputs[1].count};
    return read_list(call, 1, lists.count, &lists.starts) &&
           read_list(call, 3, lists.count, &lists.axes) &&
           read_list(call, 4, lists.count, &lists.steps) && slice(call, &lists);
}

/* ---- Gather ---------------------------------------------------------------------------------- */

bool cuda_gather(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *indices = &call->inputs[1], *y = &call->outputs[0];
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    GatherArgs args = {.x = x->data,
                       .indices = indices->data,
                       .y = y->data,
                       .outer = (int64_t)kernel_span(x, 0, axis),
                       .size = x->dims[axis],
                       .inner = (int64_t)kernel_span(x, axis + 1, x->rank),
                       .count = (int64_t)indices->count,
                       .wide = indices->dtype == DTYPE_INT64};
    const size_t size = kernel_element_size(x->dtype), pack = 16 / size;
    const bool wide =
        (uint64_t)args.inner % pack == 0 && ((uintptr_t)args.x | (uintptr_t)args.y) % 16 == 0;
    if (wide) args.inner /= (int64_t)pack;
    const CudaName name = cuda_name("gather", wide ? "x16" : cuda_size_suffix(x->dtype), "");
    const uint64_t count = wide ? y->count / pack : y->count;
    const CudaLaunch launch = {.family = CUDA_move,
                               .kernel = name.text,
                               .blocks = {cuda_blocks_full(call, count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !y->count || cuda_launch(call, &launch);
}

/* ---- Pad ------------------------------------------------------------------------------------- */

static bool launch_pad(KernelCall *call, const PadArgs *args) {
    const CudaName name = cuda_name("pad", cuda_size_suffix(call->outputs[0].dtype), "");
    const CudaLaunch launch = {
        .family = CUDA_move,
        .kernel = name.text,
        .blocks = {cuda_blocks_full(call, (uint64_t)args->count, THREADS, 1)},
        .threads = {THREADS},
        .args = args};
    return cuda_launch(call, &launch);
}

/* Pads, axes and the value are the host's. */
bool cuda_pad(KernelCall *call) {
    const PadAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const PadAxis *axes = pad_axes_read(call);
    const void *value;
    if (!axes || !pad_value_read(call, &value)) return false;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (!y->count) return true;
    if (y->rank > PAD_RANK) return kernel_decline(call, "the device does not support so many axes");
    PadArgs args = {.x = x->data,
                    .y = y->data,
                    .count = (int64_t)y->count,
                    .rank = (int32_t)y->rank,
                    .mode = (int32_t)attrs->mode};
    if (value) memcpy(&args.value, value, kernel_element_size(y->dtype));
    for (uint32_t i = 0; i < y->rank; i++) {
        if (attrs->mode != PAD_CONSTANT && axes[i].kept == 0)
            return kernel_fail(call, "axis %u has nothing to repeat", i);
        args.total[i] = y->dims[i];
        args.before[i] = axes[i].before;
        args.crop[i] = axes[i].crop;
        args.kept[i] = axes[i].kept;
        args.strides[i] = (int64_t)kernel_span(x, i + 1, x->rank);
    }
    return launch_pad(call, &args);
}

bool cuda_constant_of_shape(KernelCall *call) {
    const ConstantAttrs *attrs = call->attrs;
    const KernelTensor *value = attrs->value.data, *y = &call->outputs[0];
    if (value ? value->count != 1 || value->dtype != y->dtype : y->dtype != DTYPE_FLOAT)
        return kernel_fail(call, "value is not a single %s", dtype_name(y->dtype));
    PadArgs args = {.y = y->data, .count = (int64_t)y->count, .rank = 1};
    args.total[0] = args.count;
    if (value) memcpy(&args.value, value->data, kernel_element_size(y->dtype));
    return !y->count || launch_pad(call, &args);
}

/* ---- Trilu ----------------------------------------------------------------------------------- */

bool cuda_trilu(KernelCall *call) {
    const TriluAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *given = kernel_input(call, 1);
    const int64_t *diagonal = given ? kernel_ints(call, given) : NULL;
    if (x->rank < 2) return kernel_fail(call, "rank %u has no matrices", x->rank);
    if (given && (!diagonal || given->count != 1)) return kernel_fail(call, "k is not a scalar");
    TriangleArgs args = {.x = x->data,
                         .y = call->outputs[0].data,
                         .count = (int64_t)x->count,
                         .rows = x->dims[x->rank - 2],
                         .columns = x->dims[x->rank - 1],
                         .upper = attrs->upper != 0};
    const int64_t k = diagonal ? diagonal[0] : 0;
    args.diagonal = k < -args.rows ? -args.rows : k > args.columns ? args.columns : k;
    const CudaName name = cuda_name("triangle", cuda_size_suffix(x->dtype), "");
    const CudaLaunch launch = {.family = CUDA_move,
                               .kernel = name.text,
                               .blocks = {cuda_blocks_full(call, x->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !x->count || cuda_launch(call, &launch);
}
