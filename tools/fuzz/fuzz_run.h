// SPDX-License-Identifier: Apache-2.0
/* Running a plan that a fuzzer made or read: on inputs of its declared types, to an end or an
 * error, within budgets. */
#ifndef DEMI_FUZZ_RUN_H
#define DEMI_FUZZ_RUN_H

#include "demi_runtime.h"

typedef struct FuzzRun {
    DemiContextOptions options; /* its budgets; one thread */
    int times;                  /* runs; later ones use what earlier ones noted */
} FuzzRun;

/* Inputs are zeros, empty sequences, empty optionals; where they would be large nothing runs. Then
 * it runs some more times with outputs carried to inputs, and cut.
 * Aborts where a run fails without a reason. */
void fuzz_run(const DemiPlan *plan, const FuzzRun *how);

#endif
