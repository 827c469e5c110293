// SPDX-License-Identifier: Apache-2.0
/* Einsum's weights: which operand they are, and along which axis they have scales; see qdq_plan.h. */
#include <ctype.h>
#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_plan.h"

enum { MOST_TEXT = 128 }; /* of an equation that is read */

uint32_t qdq_weights_operand(const Node *product, const OpRecord *record) {
    if (record->channels != CHANNELS_EQUATION || product->input_count != 2) return record->weights;
    const Value *first = product->inputs[0].value, *second = product->inputs[1].value;
    return first && second && value_is_constant(first) && !value_is_constant(second) ? 0 : 1;
}

/* Without spaces. False where there is none, or one too long. */
static bool read_equation(const Node *node, char text[MOST_TEXT]) {
    Bytes bytes;
    size_t length = 0;
    if (!attr_string(node_attr(node, "equation"), &bytes)) return false;
    for (size_t i = 0; i < bytes.size; i++) {
        if (isspace((unsigned char)bytes.data[i])) continue;
        if (length == MOST_TEXT - 1) return false;
        text[length++] = (char)bytes.data[i];
    }
    text[length] = '\0';
    return true;
}

static size_t count_of(const char *text, size_t length, char label) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += text[i] == label;
    return count;
}

/* Whether the result has an axis of that label: where nothing says what it has, those that stand once. */
static bool is_kept(const char *equation, char label) {
    const char *arrow = strstr(equation, "->");
    if (arrow) return strchr(arrow + 2, label) != NULL;
    return count_of(equation, strlen(equation), label) == 1;
}

int32_t qdq_equation_axis(const Node *einsum, const Value *weights) {
    char equation[MOST_TEXT];
    int32_t axis = -1;
    if (einsum->input_count != 2 || !read_equation(einsum, equation)) return -1;
    const char *end = strstr(equation, "->"), *comma = strchr(equation, ',');
    if (!end) end = equation + strlen(equation);
    if (!comma || comma > end) return -1;
    const bool first = einsum->inputs[0].value == weights;
    const char *term = first ? equation : comma + 1;
    const size_t length = (size_t)((first ? comma : end) - term);
    if ((int64_t)length != qdq_rank(weights)) return -1; /* an ellipsis, or a fault */
    for (size_t i = 0; i < length; i++)
        if (isalpha((unsigned char)term[i]) && is_kept(equation, term[i]) &&
            count_of(term, length, term[i]) == 1 &&
            qdq_dim(weights, (int64_t)i) >= qdq_dim(weights, axis))
            axis = (int32_t)i;
    return axis;
}
