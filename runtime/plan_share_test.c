// SPDX-License-Identifier: Apache-2.0
/* Shared memory of many constants, some of which are there in several forms: each is made once, is
 * found again, and has a number of its own. */
#include "plan_share.h"

#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { VALUES = 3000, FORMS = 3, SIZE = 16, LARGE = 5000 };

typedef struct Filler {
    uint32_t made, mark;
} Filler;

static bool fill(void *data, void *to) {
    Filler *filler = data;
    filler->made++;
    memcpy(to, &filler->mark, sizeof filler->mark);
    return true;
}

static ShareKey key_of(uint32_t value, uint32_t form) {
    return (ShareKey){.value = value, .variant = form, .size = form == FORMS - 1 ? LARGE : SIZE};
}

TEST(test_many) {
    PlanShare *share = plan_share_new(NULL, VALUES * 7);
    Filler filler = {0};
    bool *numbers = calloc(VALUES * FORMS, sizeof *numbers);
    assert_non_null(share);
    assert_non_null(numbers);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < VALUES * FORMS; i++) {
            const ShareKey key = key_of(i / FORMS * 7, i % FORMS);
            uint32_t number, mark;
            filler.mark = i;
            const void *bytes =
                plan_share_get(share, &key, &(ShareFill){fill, &filler, NULL}, &number);
            assert_non_null(bytes);
            assert_int_equal((uintptr_t)bytes % 64, 0);
            memcpy(&mark, bytes, sizeof mark);
            assert_int_equal(mark, i); /* in the second round, too: it was not made again */
            assert_true(number < VALUES * FORMS && numbers[number] == (round == 1));
            numbers[number] = true;
        }
    assert_int_equal(filler.made, VALUES * FORMS);
    const ShareKey other = key_of(1, 0);
    uint32_t number;
    assert_null(plan_share_get(share, &other, NULL, &number));
    plan_share_free(share);
    free(numbers);
}
