// SPDX-License-Identifier: Apache-2.0
/* Constants of floats that fusing passes read, and those that they make; see fuse_graph.h. */
#include "constants.h"
#include "fuse_graph.h"

const Tensor *fuse_constant(const Fuse *fuse, const Value *value) {
    if (!value || !value_is_constant(value) || !fuse_takes(value)) return NULL;
    const Tensor *tensor = constant_tensor(value, fuse->ctx->scratch);
    return tensor && tensor_check(tensor, NULL) ? tensor : NULL;
}

const float *fuse_floats(const Fuse *fuse, const Value *value, uint64_t *count) {
    const Tensor *tensor = fuse_constant(fuse, value);
    if (!tensor) return NULL;
    *count = tensor_count(tensor);
    float *items = ARENA_ARRAY(fuse->ctx->scratch, float, *count + 1);
    return tensor_read_floats(tensor, 0, *count, items, NULL) ? items : NULL;
}

const float *fuse_channels(const Fuse *fuse, const Value *value, uint64_t channels) {
    uint64_t count;
    const float *items = fuse_floats(fuse, value, &count);
    return items && fuse_rank(value) == 1 && count == channels ? items : NULL;
}

Value *fuse_new_constant(Fuse *fuse, Graph *graph, const Tensor *tensor) {
    Model *model = fuse->ctx->model;
    Dim *shape = ARENA_ARRAY(&model->arena, Dim, tensor->rank + 1);
    for (uint32_t i = 0; i < tensor->rank; i++)
        shape[i] = (Dim){.kind = DIM_KNOWN, .size = tensor->dims[i]};
    Value *value = value_new(graph, sym_fresh(&model->syms, "affine"));
    value_set_type(value, type_new_shaped(&model->arena, DTYPE_FLOAT, shape, tensor->rank));
    value_set_init(value, tensor);
    return value;
}

Value *fuse_new_floats(Fuse *fuse, Graph *graph, const float *items, const int64_t *dims,
                       uint32_t rank) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= (uint64_t)dims[i];
    return fuse_new_constant(fuse, graph,
                             tensor_new_raw(&fuse->ctx->model->arena, DTYPE_FLOAT, dims, rank,
                                            items, count * sizeof *items));
}
