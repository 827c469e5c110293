// SPDX-License-Identifier: Apache-2.0
/* Pieces of 16-bit floats; see half_pieces.h. */
#include "half_pieces.h"

#include "half.h"

/* As one row, where they are one behind the other. */
static HalfRows joined(HalfRows rows) {
    if (rows.rows == 1 || rows.step != rows.columns) return rows;
    return (HalfRows){rows.data, 1, rows.rows * rows.columns, 0};
}

void half_widen(float *to, Dtype dtype, HalfRows from) {
    const HalfRows rows = joined(from);
    const uint16_t *row = rows.data;
    for (uint64_t r = 0; r < rows.rows; r++, row += rows.step, to += rows.columns)
        reduced_convert_to_float(dtype, to, row, rows.columns);
}

void half_narrow(HalfRows to, Dtype dtype, const float *from) {
    const HalfRows rows = joined(to);
    uint16_t *row = rows.data;
    for (uint64_t r = 0; r < rows.rows; r++, row += rows.step, from += rows.columns)
        reduced_convert_from_float(dtype, row, from, rows.columns);
}
