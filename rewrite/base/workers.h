// SPDX-License-Identifier: Apache-2.0
/* Workers: threads that last from one job to the next, for jobs of many short tasks.
 *
 * A job is a function called once for each of its tasks. Nothing says beforehand which thread does
 * which: each takes the next task that nobody has, the caller among them. So a job ends as soon as
 * its tasks are done, whether or not a thread woke up in time for any of them, and where other
 * programs want the processors, no more is waited for than the tasks that were begun.
 *
 * A thread is made when the first job of more than one task comes, and ends with the arena. Between
 * jobs it looks for the next one for some microseconds, then sleeps. Who wakes it up keeps it from
 * the processors that it and the other threads are on: some systems put a thread beside the one that
 * wakes it, though others are idle, and let it wait there for milliseconds.
 */
#ifndef DEMI_BASE_WORKERS_H
#define DEMI_BASE_WORKERS_H

#include "arena.h"
#include "run_end.h"

typedef struct Workers Workers;

/* One task of a job. `lane` tells the threads that are at work apart, below workers_lanes: what a
 * task needs for itself, such as a buffer, can be kept by lane. A task must not jump, so it must
 * not allocate from an arena, nor run a job of the same workers. Signals are blocked in all lanes
 * but 0.
 */
typedef void WorkersTask(void *data, unsigned task, unsigned lane);

/* Workers of up to `lanes` threads (at least 1), the caller's among them. They belong to one thread
 * at a time, as does their arena. */
Workers *workers_new(Arena *arena, unsigned lanes);

/* As many as reading, converting and writing weights gains from: those of the processors this
 * process may use, at most WORKERS_STREAMING, which is what memory keeps up with. */
enum { WORKERS_STREAMING = 4 };
Workers *workers_new_streaming(Arena *arena);

/* As many as it was made with, even where threads could not be made. */
unsigned workers_lanes(const Workers *workers);

/* From now on jobs are part of a run that may end early; NULL: of none. Where it ends, the tasks that
 * have not begun are not called, and workers_run leaves (run_end.h) when the others have returned. */
void workers_set_end(Workers *workers, RunEnd *end);

/* Whether the run has ended, asked by a task that is long, in its lane: it is to return then. */
bool workers_ended(const Workers *workers, unsigned lane);

/* In the caller's thread, between jobs: leaves where the run has ended, and what was computed may be
 * in part. */
void workers_leave_ended(const Workers *workers);

/* Calls task(data, 0 .. count - 1, lane), the lower numbers first, and returns when all have
 * returned. Task 0 is called in the calling thread, lane 0, so a job of one task needs no other.
 * What was written before is seen by the tasks, and what they wrote by the caller. */
void workers_run(Workers *workers, unsigned count, WorkersTask *task, void *data);

#endif
