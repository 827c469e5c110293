// SPDX-License-Identifier: Apache-2.0
/* What another thread sees of a model that is loaded and checked: what is at work, and how much is left. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demi.h"
#include "unit_test.h"
#include "work_progress.h"

enum { NODES = 20000, LINE = 64, HEADER = 256 };

/* A thread that asks for as long as it is let. */
typedef struct Watch {
    pthread_t thread;
    atomic_bool ended;
    const char *what; /* the innermost piece is to be called so */
    uint64_t total;   /* as seen of it; 0: never */
    uint64_t done;    /* the most that was seen */
} Watch;

static void look_once(Watch *watch) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    const unsigned count = progress_pieces(pieces);
    if (!count || strcmp(pieces[count - 1].what, watch->what) != 0) return;
    watch->total = pieces[count - 1].total;
    if (pieces[count - 1].done > watch->done) watch->done = pieces[count - 1].done;
}

static void *look(void *data) {
    Watch *watch = data;
    while (!atomic_load(&watch->ended)) look_once(watch);
    return NULL;
}

static void silent(void *user) {
    (void)user;
}

static char *chain(void) {
    char *text = malloc(HEADER + NODES * LINE);
    int size = sprintf(text,
                       "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2] v0) => "
                       "(float[2] v%d) {\n",
                       NODES);
    for (int i = 0; i < NODES; i++) size += sprintf(text + size, "v%d = Relu (v%d)\n", i + 1, i);
    strcpy(text + size, "}");
    return text;
}

typedef struct Encoded {
    unsigned char data[NODES * LINE];
    size_t size;
} Encoded;

static bool append(void *user, const void *bytes, size_t size) {
    Encoded *to = user;
    if (size > sizeof to->data - to->size) return false;
    memcpy(to->data + to->size, bytes, size);
    to->size += size;
    return true;
}

/* The same model as a file of protobuf. */
static Encoded *encoded(void) {
    char *text = chain();
    DemiModel *model = NULL;
    Encoded *bytes = calloc(1, sizeof *bytes);
    assert_int_equal(demi_load_memory(text, strlen(text), NULL, &model, NULL), DEMI_OK);
    assert_int_equal(demi_save_callback(model, append, bytes, NULL, NULL), DEMI_OK);
    demi_free(model);
    free(text);
    return bytes;
}

static void load_and_check(const Encoded *bytes) {
    DemiModel *model = NULL;
    assert_int_equal(demi_load_memory(bytes->data, bytes->size, NULL, &model, NULL), DEMI_OK);
    assert_int_equal(demi_check(model, NULL), DEMI_OK);
    demi_free(model);
}

/* What is seen of a piece while that is done, again where the other thread did not get its turn. */
static Watch watched(const Encoded *bytes, const char *what) {
    enum { TIMES = 50 };
    Watch watch = {.what = what};
    for (int i = 0; i < TIMES && !(watch.total && watch.done); i++) {
        atomic_store(&watch.ended, false);
        assert_int_equal(pthread_create(&watch.thread, NULL, look, &watch), 0);
        progress_listen(silent, NULL);
        load_and_check(bytes);
        progress_listen(NULL, NULL);
        atomic_store(&watch.ended, true);
        pthread_join(watch.thread, NULL);
    }
    return watch;
}

TEST(test_how_much_is_left) {
    Encoded *bytes = encoded();
    const Watch messages = watched(bytes, "its messages");
    assert_int_equal(messages.total, bytes->size);
    assert_in_range(messages.done, 1, bytes->size);
    const Watch nodes = watched(bytes, "nodes and values");
    assert_in_range(nodes.total, NODES, NODES + 10);
    assert_in_range(nodes.done, 1, nodes.total);
    const Watch checks = watched(bytes, "checking the model");
    assert_in_range(checks.total, 2, 10);
    assert_in_range(checks.done, 1, checks.total - 1);
    free(bytes);
}
