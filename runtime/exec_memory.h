// SPDX-License-Identifier: Apache-2.0
/* Memory of the main graph's values, planned for inputs of given shapes.
 *
 * The first run with some input shapes guesses from the sizes that the plan tells, takes memory from
 * the pool for what has none, and notes how large each value is and how long its memory lives, views
 * and values that are handed on included. When the same shapes come again, all of it gets places in
 * one piece of memory. A context keeps what it noted for the shapes it saw last, and one such piece.
 *
 * A place is a proposal: a value takes it if it fits and nothing that still lives overlaps it, else
 * memory of the pool. So sizes that depend on data, and sequences, loops and branches that hold on
 * to values for longer, need no rules here.
 */
#ifndef DEMI_EXEC_MEMORY_H
#define DEMI_EXEC_MEMORY_H

#include "exec.h"

enum { SHAPE_SET_LIMIT = 8 };

/* Before a run, its inputs being set and nothing else: finds the shapes, plans where they were
 * seen. */
void exec_memory_begin(Exec *exec);
/* After a step of the main graph: whose memory lives on in its outputs. */
void exec_memory_note(Exec *exec, const LoadedStep *step);
/* After a run. */
void exec_memory_end(Exec *exec, bool ok);
/* Between runs: gives back the pieces of memory that values have their places in, unless one of them is
 * still in use. */
void exec_memory_trim(Exec *exec);
/* Notes everything anew, as steps will run another way from now on. */
void exec_memory_forget(Exec *exec);
void exec_memory_free(Exec *exec);

/* A tensor for a value of the plan, of like's dtype and dims, one reference; NULL with the error
 * set. */
RtTensor *exec_new_tensor(Exec *exec, uint32_t value, const KernelTensor *like);

/* Of a plan with a device: where work that was recorded for this run's shapes is kept; NULL in the
 * first run of any, and where values lie anywhere. */
struct DeviceRecord **exec_memory_record(Exec *exec);

#endif
