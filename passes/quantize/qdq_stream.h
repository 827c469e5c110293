// SPDX-License-Identifier: Apache-2.0
/* Quantized weights that are made as they are read, from float ones that stay where they are: nothing of
 * them is held but scales by channels, and what was found last of scales by blocks. */
#ifndef DEMI_QDQ_STREAM_H
#define DEMI_QDQ_STREAM_H

#include "qdq_numbers.h"

typedef struct QdqStreams QdqStreams; /* all of a model */
typedef struct QdqStream QdqStream;   /* of one constant */

/* What of a constant is read: numbers, scales (float, or what the layout has them stored in) or zero points (of the
 * numbers' type, or a byte each), each as raw_data has it. */
typedef enum QdqPart { QDQ_NUMBERS, QDQ_SCALES, QDQ_ZEROS, QDQ_ZERO_BYTES } QdqPart;

/* They live as long as the arena, a model's; so must the tensors that they read. */
QdqStreams *qdq_streams_new(Arena *arena);

/* True where numbers of that layout can be made so: blocks are of matrices. */
bool qdq_can_stream(const QdqWeights *layout);

/* The numbers' tensor and layout are set, and their scales, which are borrowed, where they are by
 * channels: these may be filled until something is read. Before qdq_streams_begin. */
QdqStream *qdq_streams_add(QdqStreams *streams, const QdqNumbers *numbers);

/* Makes what the streams need to be read; nothing is added afterwards. */
void qdq_streams_begin(QdqStreams *streams);

/* A part as a source of so many bytes, which may be read in several threads at once. Scales and zero points
 * of blocks alone. `name` is what messages call it. Reading fails as reading the tensor does, or with
 * ERR_ENV where its numbers are no longer finite. */
Source *qdq_stream_source(QdqStream *stream, QdqPart part, uint64_t size, const char *name);

#endif
