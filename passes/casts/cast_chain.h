// SPDX-License-Identifier: Apache-2.0
/* What casts do to values: when one changes nothing, and when two are as good as one.
 *
 * By ONNX's definition of Cast. Integers to integers of fewer bits drop the upper ones; floats to
 * integers truncate, and what lies out of range is undefined, so nothing is promised of it;
 * anything to a float rounds to nearest even, past the largest number to infinity; to a float of 8
 * bits or less, an attribute (saturate, round_mode) has a say; bool is 0 or 1, and true unless
 * zero.
 */
#ifndef DEMI_CAST_CHAIN_H
#define DEMI_CAST_CHAIN_H

#include "graph.h"

/* True where outer(inner(x)) is outer(x) for every x, inner producing what outer reads:
 *   - the type between holds every value;
 *   - all are integers, and the last has no more bits than that between;
 *   - an integer goes through float or double to float16, where it is exact or infinite;
 *   - bool asks only for zero, and what is not zero stays so on the way.
 * A float to an integer is never looked through on the strength of what is undefined. */
bool cast_chain_is_exact(const Node *inner, const Node *outer);

/* True where a cast to the type that its operand has gives the operand: not where it saturates Inf.
 */
bool cast_is_identity(const Node *cast);

/* True where two casts of one value give the same: same types and attributes. */
bool cast_is_same(const Node *a, const Node *b);

#endif
