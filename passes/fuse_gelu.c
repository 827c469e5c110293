// SPDX-License-Identifier: Apache-2.0
/* fuse-gelu: GELU in its parts becomes one node, demi.fused.Gelu.
 *
 *   x (1 + Erf(x / sqrt 2)) / 2
 *   x (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
 *   x (1 + Tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))) / 2
 *
 * Products may be associated and ordered in any way, powers be products or Pow, divisions products;
 * numbers are constants within some roundings of their type. Products between are read once. Not in
 * faithful plans.
 */
#include <math.h>

#include "constants.h"
#include "fuse_graph.h"

enum { MOST_FACTORS = 4, MOST_DEPTH = 6, MOST_ROOTS = 3 };
static const double cubic = 0.044715;

/* A product taken apart: number * factors. */
typedef struct Product {
    double number, slack; /* what roundings of the constants in it may have made of it */
    const Value *factors[MOST_FACTORS];
    size_t count;
    bool overflow; /* more factors than any GELU has */
    Arena *scratch;
} Product;

static bool is_about(const Product *product, double number, const Value *like) {
    double slack = fmax(product->slack, 2 * fuse_slack(like));
    return !product->overflow && fabs(product->number - number) <= slack * number;
}

/* The number of a constant that does not raise its product's rank. */
static bool number_of(const Value *value, const Value *of, double *number) {
    float have;
    if (!fuse_scalar(value, &have)) return false;
    *number = (double)have;
    return fuse_rank(value) == 0 || (fuse_rank(value) > 0 && fuse_rank(value) <= fuse_rank(of));
}

static void take_apart(const Value *value, const Value *stop, Product *product, int depth);

/* `of` is the other factor. */
static void take_factor(const Value *value, const Value *of, const Value *stop, Product *product,
                        int depth) {
    double number;
    if (number_of(value, of, &number)) {
        product->number *= number;
        product->slack = fmax(product->slack, 2 * fuse_slack(value));
    } else if (value != stop && fuse_reader(value)) {
        take_apart(value, stop, product, depth + 1);
    } else if (product->count < MOST_FACTORS) {
        product->factors[product->count++] = value;
    } else {
        product->overflow = true;
    }
}

/* Multiplies `product` by what makes `value`; `stop` is not looked into. */
static void take_apart(const Value *value, const Value *stop, Product *product, int depth) {
    const Node *node = value->producer;
    double number;
    bool two = node && node->input_count == 2 && node->inputs[0].value && node->inputs[1].value;
    if (depth < MOST_DEPTH && two && fuse_is(node, "Mul")) {
        for (uint32_t i = 0; i < 2; i++)
            take_factor(node->inputs[i].value, node->inputs[1 - i].value, stop, product, depth);
    } else if (depth < MOST_DEPTH && two && fuse_is(node, "Div") &&
               number_of(node->inputs[1].value, node->inputs[0].value, &number) && number != 0) {
        product->number /= number;
        product->slack = fmax(product->slack, 2 * fuse_slack(node->inputs[1].value));
        take_factor(node->inputs[0].value, node->inputs[1].value, stop, product, depth);
    } else if (product->count < MOST_FACTORS) {
        product->factors[product->count++] = value;
    } else {
        product->overflow = true;
    }
}

static Product apart(const Fuse *fuse, const Value *value, const Value *stop) {
    Product product = {.number = 1, .scratch = fuse->ctx->scratch};
    take_apart(value, stop, &product, 0);
    return product;
}

/* ---- powers and sums ------------------------------------------------------------------------- */

/* n where value is Pow(x, n) of a small whole n; else 0. */
static int power_of(const Value *value, const Value *x, Arena *scratch) {
    const Node *node = value->producer;
    float exponent = 0;
    int64_t *items;
    uint64_t count;
    if (value == x) return 1;
    if (!fuse_is(node, "Pow") || fuse_input(node, 0) != x || !fuse_input(node, 1)) return 0;
    const Value *n = node->inputs[1].value;
    if (fuse_scalar(n, &exponent)) return exponent == 2 ? 2 : exponent == 3 ? 3 : 0;
    const Tensor *tensor = constant_tensor(n, scratch);
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, scratch, 1, &items, &count) || count != 1)
        return 0;
    return *items == 2 || *items == 3 ? (int)*items : 0;
}

/* True where the product is number * x^degree. */
static bool is_power(const Product *product, const Value *x, double number, int degree) {
    int have = 0;
    for (size_t i = 0; i < product->count; i++) {
        int power = power_of(product->factors[i], x, product->scratch);
        if (power == 0) return false;
        have += power;
    }
    return have == degree && is_about(product, number, x);
}

/* The other term of a sum with the number 1; NULL where value is none. */
static const Value *behind_one(const Value *value) {
    const Node *node = value->producer;
    if (!fuse_is(node, "Add") || node->input_count != 2) return NULL;
    for (uint32_t i = 0; i < 2; i++)
        if (node->inputs[i].value && node->inputs[1 - i].value &&
            fuse_is_number(node->inputs[i].value, node->inputs[1 - i].value, 1))
            return node->inputs[1 - i].value;
    return NULL;
}

/* ---- the two forms --------------------------------------------------------------------------- */

/* x of x / sqrt 2; NULL where value is no such thing. */
static Value *erf_operand(const Fuse *fuse, const Value *value) {
    Product product = apart(fuse, value, NULL);
    if (product.count != 1 || !is_about(&product, 0.70710678118654752, value)) return NULL;
    return (Value *)(uintptr_t)product.factors[0];
}

/* x + 0.044715 x^3: x; NULL where value is no such sum. */
static const Value *cubic_operand(const Fuse *fuse, const Value *value) {
    const Node *sum = value->producer;
    if (!fuse_is(sum, "Add") || sum->input_count != 2) return NULL;
    for (uint32_t i = 0; i < 2; i++) {
        const Value *x = sum->inputs[i].value, *term = sum->inputs[1 - i].value;
        if (!x || !term || x == term) continue;
        Product product = apart(fuse, term, x);
        if (is_power(&product, x, cubic, 3)) return x;
    }
    return NULL;
}

static Value *tanh_operand(const Fuse *fuse, const Value *value) {
    Product product = apart(fuse, value, NULL);
    if (!is_about(&product, 0.79788456080286536, value)) return NULL;
    if (product.count == 1) return (Value *)(uintptr_t)cubic_operand(fuse, product.factors[0]);
    for (size_t i = 0; product.count == 2 && i < 2; i++) { /* x (1 + 0.044715 x^2) */
        const Value *x = product.factors[i], *term = behind_one(product.factors[1 - i]);
        if (!term) continue;
        Product square = apart(fuse, term, x);
        if (is_power(&square, x, cubic, 2)) return (Value *)(uintptr_t)x;
    }
    return NULL;
}

/* True where root is x * gate / 2. */
static bool is_gelu(const Fuse *fuse, const Node *root, const Value *x, const Value *gate) {
    Product product = apart(fuse, root->outputs[0], x);
    bool both = product.count == 2 && ((product.factors[0] == x && product.factors[1] == gate) ||
                                       (product.factors[0] == gate && product.factors[1] == x));
    return both && is_about(&product, 0.5, x);
}

static void visit(Fuse *fuse, Node *node) {
    bool erf = fuse_is(node, "Erf"), tanh = fuse_is(node, "Tanh");
    if (fuse->faithful || (!erf && !tanh) || !fuse_input(node, 0)) return;
    Value *x =
        erf ? erf_operand(fuse, node->inputs[0].value) : tanh_operand(fuse, node->inputs[0].value);
    Node *sum = fuse_reader(node->outputs[0]);
    if (!x || !fuse_takes(x) || !fuse_is(sum, "Add") ||
        behind_one(sum->outputs[0]) != node->outputs[0])
        return;
    const Value *gate = sum->outputs[0];
    Node *root = fuse_reader(gate);
    for (int i = 0; root && root->output_count && root->outputs[0] && i < MOST_ROOTS; i++) {
        if (is_gelu(fuse, root, x, gate)) {
            Node *made = fuse_new(fuse, root, "Gelu", root, 1);
            node_set_input(made, 0, x);
            if (tanh) node_set_attr_string(made, "approximate", "tanh");
            fuse_replace_root(fuse, made, root);
            return;
        }
        root = fuse_reader(root->outputs[0]);
    }
}

FUSE_PASS(fuse_gelu, "fuse-gelu", "fuse the parts of GELU into one operator, for plans", visit);
