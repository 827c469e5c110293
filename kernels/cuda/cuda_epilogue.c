// SPDX-License-Identifier: Apache-2.0
/* See cuda_epilogue.h. */
#include "cuda_epilogue.h"

#include "product_args.h"

enum { THREADS = 256 };

bool cuda_activation(KernelCall *call, const ActivationChoice *choice, CudaEpilogue *e) {
    static const struct {
        enum UnaryOp op;
        uint32_t most;
        float p, q;
    } known[ACTIVATION_COUNT] = {
        [ACTIVATION_NONE] = {UNARY_COPY, 0, 0, 0},
        [ACTIVATION_RELU] = {UNARY_RELU, 0, 0, 0},
        [ACTIVATION_CLIP] = {UNARY_CLIP, 2, -3.402823466e38f, 3.402823466e38f},
        [ACTIVATION_LEAKY_RELU] = {UNARY_LEAKY, 1, 0.01f, 0},
        [ACTIVATION_SIGMOID] = {UNARY_SIGMOID, 0, 0, 0},
        [ACTIVATION_TANH] = {UNARY_TANH, 0, 0, 0},
        [ACTIVATION_HARD_SIGMOID] = {UNARY_HARD_SIGMOID, 2, 0.2f, 0.5f},
        [ACTIVATION_HARD_SWISH] = {UNARY_HARD_SWISH, 0, 0, 0},
        [ACTIVATION_SILU] = {UNARY_SWISH, 0, 1, 0},
        [ACTIVATION_GELU] = {UNARY_GELU, 0, 0, 0},
        [ACTIVATION_GELU_TANH] = {UNARY_GELU_TANH, 0, 0, 0},
    };
    if (choice->activation < 0 || choice->activation >= ACTIVATION_COUNT)
        return kernel_fail(call, "its activation is unknown");
    if (choice->params.count > known[choice->activation].most)
        return kernel_fail(call, "its activation has too many parameters");
    e->op = known[choice->activation].op;
    e->p = choice->params.count > 0 ? choice->params.items[0] : known[choice->activation].p;
    e->q = choice->params.count > 1 ? choice->params.items[1] : known[choice->activation].q;
    return true;
}

/* Elements [first, first + count). */
static bool finish_part(KernelCall *call, const CudaEpilogue *e, const EpilogueArgs *all,
                        const CudaName *name, uint64_t first, uint64_t count, Dtype from,
                        Dtype to) {
    EpilogueArgs args = *all;
    args.x = (const char *)all->x + first * kernel_element_size(from);
    args.y = (char *)all->y + first * kernel_element_size(to);
    if (e->z) args.z = (const char *)all->z + first * kernel_element_size(e->z->dtype);
    args.count = (uint32_t)count;
    const CudaLaunch launch = {.family = CUDA_product,
                               .kernel = name->text,
                               .blocks = {cuda_blocks_full(call, count, THREADS, 4)},
                               .threads = {THREADS},
                               .args = &args};
    return cuda_launch(call, &launch);
}

/* The kernel counts in 32 bits: parts are of whole rounds of columns. */
static bool finish(KernelCall *call, const CudaEpilogue *e, const void *x, Dtype from, void *y,
                   Dtype to, uint64_t count) {
    const uint64_t inner = e->inner ? e->inner : 1, columns = e->columns ? e->columns : 1;
    const uint64_t round = inner * columns, most = UINT64_C(1) << 30;
    const uint64_t part = round < most ? most / round * round : most;
    if (e->bias && round > most)
        return kernel_decline(call, "the device does not support such a long row");
    const EpilogueArgs args = {.x = x,
                               .y = y,
                               .bias = e->bias ? e->bias->data : NULL,
                               .z = e->z ? e->z->data : NULL,
                               .inner = (uint32_t)(e->bias ? inner : 1),
                               .columns = (uint32_t)(e->bias ? columns : 1),
                               .bias_type = e->bias ? (int32_t)e->bias->dtype : 0,
                               .z_type = e->z ? (int32_t)e->z->dtype : 0,
                               .bias_step = e->bias && e->bias->count > 1,
                               .op = (int32_t)e->op,
                               .p = e->p,
                               .q = e->q,
                               .scale = e->scale};
    const CudaName name = cuda_name("epilogue", cuda_suffix(from), cuda_suffix(to));
    for (uint64_t i = 0; i < count; i += part)
        if (!finish_part(call, e, &args, &name, i, count - i < part ? count - i : part, from, to))
            return false;
    return true;
}

bool cuda_epilogue(KernelCall *call, const CudaEpilogue *e, const void *x, Dtype from, void *y,
                   Dtype to, uint64_t count) {
    cuda_between(call, count * kernel_element_size(from));
    return finish(call, e, x, from, y, to, count);
}

bool cuda_convert(KernelCall *call, const void *x, Dtype from, void *y, Dtype to, uint64_t count) {
    const CudaEpilogue plain = {.op = UNARY_COPY, .scale = 1};
    cuda_between(call, count * kernel_element_size(to));
    return finish(call, &plain, x, from, y, to, count);
}
