// SPDX-License-Identifier: Apache-2.0
/* Each operator that is said to be decomposed (OP_DECOMPOSED) has a recipe, and no other has one. What recipes
 * make is testdata/golden/decompose.txt's, what that computes tools/suites/contrib_test.py's. */
#include <string.h>

#include "op_record.h"
#include "decompose.h"
#include "unit_test.h"

static const struct {
    const char *domain, *op;
} recipes[] = {
#define X(domain, op, name) {domain, op},
    DECOMPOSE_RECIPES(X)
#undef X
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

TEST(test_recipes) {
    size_t decomposed = 0;
    for (size_t i = 0; i < RECIPES; i++)
        if (!op_record_has(op_record_find(recipes[i].domain, recipes[i].op), OP_DECOMPOSED))
            fail_msg("%s has a recipe, but is not OP_DECOMPOSED", recipes[i].op);
    for (size_t i = 0; i < op_record_count(); i++)
        decomposed += op_record_has(op_record_at(i), OP_DECOMPOSED);
    assert_int_equal(decomposed, RECIPES);
}

/* By domain and name, so that each is there once. */
TEST(test_order) {
    for (size_t i = 1; i < RECIPES; i++) {
        const int domain = strcmp(recipes[i - 1].domain, recipes[i].domain);
        if (domain > 0 || (domain == 0 && strcmp(recipes[i - 1].op, recipes[i].op) >= 0))
            fail_msg("%s is not behind %s", recipes[i].op, recipes[i - 1].op);
    }
}
