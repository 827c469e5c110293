// SPDX-License-Identifier: Apache-2.0
/* Measured ranges of values, as options have them: "NAME=MAX" for a magnitude, "NAME=MIN:MAX" for
 * both ends, "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,..." with what each place along an axis, which counts from
 * behind where it is negative, is on average, and what quantizing adds to that. What values reach when the
 * float model runs on data tells which of them 16 bits can't hold, and what scale a quantized one needs. */
#ifndef DEMI_RANGE_TABLE_H
#define DEMI_RANGE_TABLE_H

#include "pass.h"

typedef struct RangeText {
    size_t name_length;         /* the name is what stands before */
    bool ends;                  /* both are said; else it is a magnitude: low = -high */
    double low, high;           /* low <= high; may be infinite */
    int32_t axis;               /* of means */
    const char *means, *errors; /* their text; NULL: not said */
    size_t mean_count;          /* 0: not said */
} RangeText;

/* False where it is not one of these forms, or a number cannot be read. */
bool range_text_read(const char *text, RangeText *range);
/* The means or errors, [mean_count], of a text that was read: 0 where they are not said. */
void range_text_numbers(const RangeText *range, const char *text, double *numbers);

typedef struct RangeRow {
    Sym name; /* NULL where the model has no such name */
    const char *text;
    double low, high;
    int32_t axis; /* of means, as RangeText has them */
    size_t mean_count;
    const double *means, *errors; /* [mean_count] */
    bool matched;                 /* for who looks up: a value has that name */
} RangeRow;

typedef struct RangeTable {
    RangeRow *rows;
    size_t count;
} RangeTable;

/* Reads all; of a name that is given twice, the range that holds both, and no means. In `scratch`. ERR_USAGE where
 * one can't be read. */
bool range_table_read(const Model *model, const PassStrings *items, Arena *scratch,
                      RangeTable *table, Err *err);

/* The row of that name, or NULL. */
RangeRow *range_table_find(const RangeTable *table, Sym name);

/* ERR_USAGE with the nearest name, where a row was not matched. */
bool range_table_check(const RangeTable *table, const Model *model, Arena *scratch, Err *err);

#endif
