// SPDX-License-Identifier: Apache-2.0
/* Activations of fast plans' epilogues: as quick_rows.c has those of whole tensors. CMakeLists.txt has this
 * file compiled with -ffp-contract=fast. */
#include <math.h>

#include "epilogue.h"
#include "formulas.h"
#include "kernel_math.h"
#include "kernel_rows.h"

#define ACTIVATE_TABLE     epilogue_quick
#define ACTIVATE_NORMAL(x) math_quick_normal(x)
#include "epilogue_activate.inc"
