// SPDX-License-Identifier: Apache-2.0
/* The rows of oneDNN's in a build without its headers: they decline, whatever is chosen. They have as many
 * choices as those that are there, so that plans go from one build to the other
 * (kernel_table_version). Compiled instead of all other onednn_*.c (tools/cmake/onednn.cmake). */
#include "kernel_functions.h"
#include "onednn.h"

const char *onednn_version(void) {
    return NULL;
}
const char *onednn_problem(void) {
    return "demi was built without oneDNN";
}
const char *onednn_built_with(void) {
    return NULL;
}

static KernelReady decline(KernelCall *call) {
    (void)call;
    return KERNEL_DECLINED;
}

/* Never called, as nothing gets ready. */
static bool refuse(KernelCall *call) {
    return kernel_fail(call, "%s", onednn_problem());
}

#define ABSENT(name)                                                                               \
    const KernelPrepare kernel_prepare_onednn_##name = {decline, NULL, ONEDNN_CHOICES};            \
    bool kernel_onednn_##name(KernelCall *call) {                                                  \
        return refuse(call);                                                                       \
    }

ABSENT(conv)
ABSENT(conv_integer)
ABSENT(conv_transpose)
ABSENT(fused_conv)
ABSENT(fused_matmul)
ABSENT(gemm)
ABSENT(matmul)
ABSENT(matmul_integer)
ABSENT(qlinear_conv)
ABSENT(qlinear_matmul)
