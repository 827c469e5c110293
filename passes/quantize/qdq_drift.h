// SPDX-License-Identifier: Apache-2.0
/* What rounding adds to a product on average, which its bias is to make up for. With weights w that are
 * stored as w + g, and channels of mean m to whose mean quantizing adds e, that is the sum of
 * w e + g (m + e) over all that a result is a sum of (bias correction as in Nagel et al., "Data-Free
 * Quantization through Weight Equalization and Bias Correction", with means that were measured). Taking its
 * mean from an error leaves less of its square, whatever the rest of it is. */
#ifndef DEMI_QDQ_DRIFT_H
#define DEMI_QDQ_DRIFT_H

#include "graph.h"
#include "qdq_numbers.h"
#include "range_table.h"

/* Along which axis the product's first operand has the channels that its sums are over, from behind where
 * it is negative; false where its sums are not those of a channel's weights each. */
bool qdq_operand_channels(const Node *product, uint32_t weights_rank, int32_t *axis);

/* The factors of the product's weights, `tensor`, with scales along `axis`, from what its operand's channels
 * are on average. `own_scale`: the operand is quantized in the range that its errors were measured with. False
 * where `range` has no means, or not those. In `arena`. */
bool qdq_drift_begin(const Node *product, const Tensor *tensor, int32_t axis, const RangeRow *range,
                     bool own_scale, Arena *arena, QdqDrift *drift);

#endif
