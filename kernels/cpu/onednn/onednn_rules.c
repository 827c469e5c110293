// SPDX-License-Identifier: Apache-2.0
/* The rules by which rows of oneDNN's are chosen; see onednn_rules.h. */
#include "onednn_rules.h"

#include "isa.h"

static bool is_bytes(OnednnFamily family) {
    return family == ONEDNN_CONV_BYTES || family == ONEDNN_MATMUL_BYTES;
}

bool onednn_allowed(const KernelCall *call, OnednnFamily family, Dtype dtype) {
    bool bytes = dtype == DTYPE_INT8 || dtype == DTYPE_UINT8;
    bool reals = dtype == DTYPE_FLOAT || dtype == DTYPE_BFLOAT16;
    if (call->provider == KERNEL_PROVIDER_OWN) return false;
    /* A 16-bit result is that of float sums rounded once, but of sums in another order than the own
     * kernels', and of bfloat16 with subnormals taken for 0: it may be the neighboring number.
     * Those of float may be on their way to being one. Sums of bytes are exact. */
    return is_bytes(family) ? bytes : reals && !call->faithful;
}

/* Which groups a rule is for. */
typedef enum RuleGroups { ONE_GROUP, SOME_GROUPS } RuleGroups;

/* Which weights. Own kernels have constant ones packed. */
typedef enum RuleWeights { ANY_WEIGHTS, CONSTANT_WEIGHTS, OTHER_WEIGHTS } RuleWeights;

/* Work of this family and type is faster by oneDNN from these sizes on. `work`: multiply-adds of an
 * image's or a batch's product, of all groups. */
typedef struct Rule {
    OnednnFamily family;
    Dtype dtype; /* FLOAT, BFLOAT16, or UINT8 for all bytes */
    RuleGroups groups;
    RuleWeights weights;
    uint64_t rows, depth, work;
    uint64_t rows_most; /* 0: any */
} Rule;

static const Rule rules[] = {
    /* of float the own kernels are within 10 % or ahead, but for groups of some channels (2.4
     * times), and weights that are no constants, as in training (1.3 to 3 times) */
    {ONEDNN_CONV, DTYPE_FLOAT, SOME_GROUPS, ANY_WEIGHTS, 8, 64, 1 << 18, 0},
    {ONEDNN_CONV, DTYPE_FLOAT, ONE_GROUP, OTHER_WEIGHTS, 8, 64, 1 << 16, 0},
    /* 2 to 6 times */
    {ONEDNN_DECONV, DTYPE_FLOAT, ONE_GROUP, ANY_WEIGHTS, 8, 16, 1 << 16, 0},
    {ONEDNN_DECONV, DTYPE_BFLOAT16, ONE_GROUP, ANY_WEIGHTS, 8, 16, 1 << 16, 0},
    /* twice as fast and more, but for depthwise ones, where changes of layout cost too much */
    {ONEDNN_CONV, DTYPE_BFLOAT16, ONE_GROUP, ANY_WEIGHTS, 1, 8, 1 << 16, 0},
    {ONEDNN_CONV, DTYPE_BFLOAT16, SOME_GROUPS, ANY_WEIGHTS, 4, 32, 1 << 16, 0},
    /* 1.2 to 3 times; of few channels and one tap the sums' way to rows takes longest */
    {ONEDNN_CONV_BYTES, DTYPE_UINT8, ONE_GROUP, ANY_WEIGHTS, 8, 72, 1 << 16, 0},
    /* 2.5 to 11 times, depthwise ones most */
    {ONEDNN_CONV_BYTES, DTYPE_UINT8, SOME_GROUPS, ANY_WEIGHTS, 1, 8, 1 << 16, 0},
    /* 1.7 to 4 times; a vector by a matrix that is not packed is no faster */
    {ONEDNN_MATMUL, DTYPE_BFLOAT16, ONE_GROUP, CONSTANT_WEIGHTS, 1, 16, 1 << 17, 0},
    {ONEDNN_MATMUL, DTYPE_BFLOAT16, ONE_GROUP, ANY_WEIGHTS, 8, 16, 1 << 17, 0},
    /* 1.5 to 3 times, of few rows 20 and more */
    {ONEDNN_MATMUL_BYTES, DTYPE_UINT8, ONE_GROUP, ANY_WEIGHTS, 1, 16, 1 << 17, 0},
};

static bool suits(RuleWeights weights, const OnednnWork *work) {
    return weights == ANY_WEIGHTS || (weights == CONSTANT_WEIGHTS) == work->constant;
}

static bool preferred(const KernelCall *call, const OnednnWork *work) {
    if (call->provider == KERNEL_PROVIDER_ONEDNN) return true;
    double amount =
        (double)work->groups * (double)work->rows * (double)work->columns * (double)work->depth;
    RuleGroups groups = work->groups > 1 ? SOME_GROUPS : ONE_GROUP;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const Rule *rule = &rules[i];
        if (rule->family == work->family && rule->dtype == work->dtype && rule->groups == groups &&
            suits(rule->weights, work) && work->rows >= rule->rows && work->depth >= rule->depth &&
            (!rule->rows_most || work->rows <= rule->rows_most) && amount >= (double)rule->work)
            return true;
    }
    return false;
}

/* False where the processor has not what makes the library worth its 15 MB: it need not be opened
 * to say so. */
static bool may_be_native(const OnednnWork *work) {
#if defined(__x86_64__)
    if (work->dtype == DTYPE_BFLOAT16) return isa_here() & CPU_AVX512_BF16;
    if (is_bytes(work->family)) return isa_here() & (CPU_AVX512_VNNI | CPU_AVX_VNNI);
#else
    (void)work;
#endif
    return true;
}

const Onednn *onednn_for(const KernelCall *call, const OnednnWork *work) {
    if (!onednn_allowed(call, work->family, work->dtype) ||
        preferred(call, work) == (call->choice > 0) || !may_be_native(work))
        return NULL;
    const Onednn *lib = onednn_get();
    if (!lib || (is_bytes(work->family) && !lib->bytes)) return NULL;
    return work->dtype == DTYPE_BFLOAT16 && !lib->bfloat16 ? NULL : lib;
}
