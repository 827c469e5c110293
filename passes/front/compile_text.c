// SPDX-License-Identifier: Apache-2.0
/* The passes that make plans, in their order. */
#include "compile_text.h"

#include <stdio.h>

/* What `demi compile` runs, by the plan's numerics, up to the last option, its budget. `widen` and
 * `layouts` are passes that faithful plans do without, and those that are to be small: channels-last
 * weights are packed in float. gather-first comes twice: what products read of a table shared with
 * them is theirs only when they are fused. */
#define COMPILE_PIPELINE(numerics, quantized, widen, weights, layouts)                             \
    "strip-training,infer-dtypes,infer-shapes,expand-gradient,spell-out,remove-identities,"        \
    "eliminate-dead,gather-first," quantized widen "fuse-gelu{numerics=" numerics                  \
    "},fuse-rotary{numerics=" numerics "},fuse-one-hot{numerics=" numerics                         \
    "},fold-affine{numerics=" numerics "},fuse-conv{numerics=" numerics                            \
    "},fuse-attention{numerics=" numerics "},fuse-matmul{numerics=" numerics                       \
    "},join-products{numerics=" numerics "}," weights                                              \
    "gather-first,fuse-layer-norm{numerics=" numerics "},fuse-kernel-casts{numerics=" numerics     \
    "}," layouts "eliminate-dead,lower-plan{numerics=" numerics ",fold=true"
/* What a device has no kernels of: there quantized values are floats between their steps. */
#define QUANTIZED(numerics)                                                                        \
    "move-dequantize{numerics=" numerics "},fuse-tables{numerics=" numerics                        \
    "},fuse-quantized{numerics=" numerics "},"
#define WEIGHTS(numerics) "fuse-weights{numerics=" numerics "},"
#define AFFINE            "fuse-affine{numerics=fast},"
/* Devices read keys and values in one tensor. */
#define PAST    "read-past{numerics=fast},"
#define LAYOUTS "choose-layouts,remove-identities,fuse-separable,"
static const char *const compile_pipelines[] = {
    [DEMI_NUMERICS_FAST] = COMPILE_PIPELINE("fast", QUANTIZED("fast"), "widen-values,",
                                            WEIGHTS("fast"), PAST AFFINE LAYOUTS),
    [DEMI_NUMERICS_FAITHFUL] =
        COMPILE_PIPELINE("faithful", QUANTIZED("faithful"), "", WEIGHTS("faithful"), ""),
};
static const char *const isa_names[] = {[DEMI_ISA_NATIVE] = "native",
                                        [DEMI_ISA_NONE] = "none",
                                        [DEMI_ISA_PORTABLE] = "portable",
                                        [DEMI_ISA_AVX2] = "avx2",
                                        [DEMI_ISA_AVX512] = "avx512"};
static const char compile_small[] =
    COMPILE_PIPELINE("fast", QUANTIZED("fast"), "", WEIGHTS("fast"), PAST AFFINE) ",small=true";
static const char compile_device[] =
    COMPILE_PIPELINE("fast", "", "", WEIGHTS("fast"),
                     AFFINE "choose-layouts{device=true},remove-identities,") ",small=true";
static const char compile_plainly[] = "strip-training,infer-dtypes,infer-shapes,expand-gradient,"
                                      "spell-out{numerics=faithful},"
                                      "eliminate-dead,lower-plan{numerics=faithful";
_Static_assert(sizeof COMPILE_PIPELINE("faithful", QUANTIZED("faithful"), "widen-values,",
                                       WEIGHTS("faithful"), PAST AFFINE LAYOUTS) +
                       48 <=
                   COMPILE_TEXT,
               "with the budget and the instruction set");

void compile_text(const DemiCompileOptions *options, char text[COMPILE_TEXT]) {
    bool small = options->small && options->numerics == DEMI_NUMERICS_FAST;
    const char *passes = small ? compile_small : compile_pipelines[options->numerics];
    const bool device = options->for_device && options->numerics == DEMI_NUMERICS_FAST;
    if (device) passes = compile_device;
    if (options->keep_values) passes = compile_plainly;
    uint64_t memory = options->memory_budget < INT64_MAX ? options->memory_budget : INT64_MAX;
    /* what is watched is to be as the model has it */
    const char *isa =
        options->keep_values || options->for_device ? "none" : isa_names[options->isa];
    snprintf(text, COMPILE_TEXT, "%s,isa=%s,memory=%llu}", passes, isa, (unsigned long long)memory);
}
