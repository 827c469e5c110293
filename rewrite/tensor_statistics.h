// SPDX-License-Identifier: Apache-2.0
/* The value statistics of a whole tensor, taken once.
 *
 * Several passes ask what narrowing a weight would change, and its data may lie in a file of many
 * gigabytes. Tensors are immutable, so what was counted for one target stays true: a StatisticsMemo
 * remembers it for as long as a pipeline runs. Small tensors are counted again: that is cheaper.
 */
#ifndef DEMI_TENSOR_STATISTICS_H
#define DEMI_TENSOR_STATISTICS_H

#include "statistics.h"
#include "tensor.h"

typedef struct StatisticsMemo StatisticsMemo;

/* An empty memo in `arena`, which must live as long as it. Large tensors are counted by several
 * threads, which end with the arena; the memo belongs to one thread at a time. */
StatisticsMemo *statistics_memo_new(Arena *arena);

/* Counts what converting a float, float16 or bfloat16 tensor to `target` would change. The tensor
 * must have passed tensor_check and live as long as the memo. False with *err set where the data
 * can't be read. */
bool tensor_statistics(StatisticsMemo *memo, const Tensor *tensor, Dtype target,
                       ValueStatistics *statistics, Err *err);

#endif
