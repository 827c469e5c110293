// SPDX-License-Identifier: Apache-2.0
/* Runs of a plan that was placed on a device: copies between memories, and work that is recorded once
 * and repeated.
 *
 * Where the host's part of a run depends on sizes alone, the second run with inputs of the same sizes
 * is recorded, and later ones repeat that: inputs are put where it reads them, and nothing else is
 * done step by step. Recorded work refers to memory by address: it is forgotten before any of that is
 * given back (exec_device_forget).
 */
#ifndef DEMI_EXEC_RECORD_H
#define DEMI_EXEC_RECORD_H

#include "exec.h"

/* The operators of the domain demi.device, or NULL. */
ExecFunction exec_record_find(const char *domain, const char *op);

/* A value's elements in the host's memory, in `arena`, which they fill; for those who watch. */
void *exec_record_fetch(Exec *exec, const RtTensor *tensor, Arena *arena);

/* exec_graph(exec, 0) of a plan with a device. */
bool exec_record_run(Exec *exec);
/* Ends a recording that was jumped out of. */
void exec_record_abandon(Exec *exec);

#endif
