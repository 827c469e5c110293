// SPDX-License-Identifier: Apache-2.0
/* The sizes of inputs that a model leaves open, by the names it has for them: one size a name, in
 * all inputs. What is said (--dim, --shape) or seen (the shape of a file's array) binds a name for
 * good; the rest is assumed:
 *
 *     batches and whatever else comes first        1
 *     height and width of images                   64
 *     lengths of sequences, anything else          16
 *     what is past, in a cache of a decoder        8
 *
 * and "a + b", as exporters call sums, is that sum. Not every model takes these: a caller tries one
 * after the other of INPUT_SIZE_ATTEMPTS choices, the last of which is 1 everywhere. Several runs
 * may take different sizes: each variant but 0 stretches or shrinks what is neither batch nor
 * bound.
 */
#ifndef DEMI_INPUT_SIZES_H
#define DEMI_INPUT_SIZES_H

#include "arena.h"
#include "demi_runtime.h"
#include "vec.h"

enum { INPUT_SIZE_ATTEMPTS = 5 };

typedef enum InputSizeState {
    INPUT_SIZE_OPEN,
    INPUT_SIZE_BOUND,
    INPUT_SIZE_ASSUMED
} InputSizeState;

typedef enum InputSizeKind {
    INPUT_SIZE_BATCH,
    INPUT_SIZE_CHANNELS,
    INPUT_SIZE_IMAGE,
    INPUT_SIZE_SEQUENCE,
    INPUT_SIZE_PAST,
} InputSizeKind;

typedef struct InputSize {
    const char *name; /* "" where the model has none: then it is of one axis alone */
    size_t input;     /* where it is met first */
    uint32_t axis;
    InputSizeKind kind;
    InputSizeState state;
    int64_t size;
} InputSize;

typedef struct InputSizes {
    Arena *arena;
    VEC(InputSize) items;
} InputSizes;

/* Finds the open sizes of inputs as they are declared. */
void input_sizes_find(InputSizes *sizes, const DemiPlanIo *inputs, size_t count, Arena *arena);

/* Makes all open again. */
void input_sizes_reset(InputSizes *sizes);

/* Binds a name; false where no input has it. A name that is bound stays as it is. */
bool input_sizes_bind(InputSizes *sizes, const char *name, int64_t size);
/* Binds what an input's shape says, where it has the declared rank. */
void input_sizes_bind_shape(InputSizes *sizes, size_t input, const DemiPlanIo *declared,
                            const int64_t *dims, uint32_t rank);

/* Gives every size that is not bound one of its own; true where any is more than a batch of 1. */
bool input_sizes_assume(InputSizes *sizes, unsigned attempt, unsigned variant);

/* The size of that name, -1 where there is none or it is open. */
int64_t input_sizes_of(const InputSizes *sizes, const char *name);

/* The declared dims with every size that is known by now; -1 for others. */
const int64_t *input_sizes_dims(const InputSizes *sizes, size_t input, const DemiPlanIo *declared);

/* "seq_len 16, batch 1": those that are assumed, unnamed ones by input and axis; "" where none is.
 * `inputs` for their names. */
const char *input_sizes_text(const InputSizes *sizes, const DemiPlanIo *inputs);
/* All names, separated by commas; "" where there is none. */
const char *input_sizes_names(const InputSizes *sizes);

#endif
