// SPDX-License-Identifier: Apache-2.0
/* For tests of plug-ins: the test itself is the plug-in, with one pass, which is run on a model
 * given as text; what came of it lies in `outcome`. */
#ifndef TEST_PLUGIN_H
#define TEST_PLUGIN_H

#include <stdlib.h>
#include <string.h>

#define DEMI_EXPERIMENTAL
#include "demi_plugin.h"
#include "unit_test.h"

typedef bool (*PassFn)(const DemiApi *api, DemiPassRun *run, DemiGraph *graph);

/* What the next demi_passes_add describes. */
static struct Described {
    DemiPlugin plugin;
    DemiPluginPass pass;
    const DemiApi *api;
    bool refuses;
} described;

static inline const DemiPlugin *plugin_entry(const DemiApi *api) {
    described.api = api;
    return described.refuses ? NULL : &described.plugin;
}

static inline void describe(PassFn run) {
    described.pass = (DemiPluginPass){DEMI_PLUGIN_PASS_INIT, .name = "test-pass", .run = run};
    described.plugin = (DemiPlugin){DEMI_PLUGIN_INIT, .passes = &described.pass, .pass_count = 1};
    described.refuses = false;
}

typedef struct Text {
    char bytes[1 << 14];
    size_t size;
} Text;

static inline bool collect(void *user, const void *bytes, size_t size) {
    Text *text = user;
    if (size > sizeof text->bytes - 1 - text->size) return false;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
    return true;
}

typedef struct Outcome {
    DemiStatus status;
    DemiError error;
    Text model, printed;
    uint64_t rewrites;
} Outcome;

static Outcome outcome;

/* Runs `pipeline` with the described pass on a model; the outcome is in `outcome`. */
static inline void run_on(const char *model_text, const char *pipeline) {
    DemiModel *model = NULL;
    DemiPasses *passes = NULL;
    DemiReport *report = NULL;
    DemiRunOptions options = DEMI_RUN_OPTIONS_INIT;
    outcome = (Outcome){.error = DEMI_ERROR_INIT};
    DemiError *error = &outcome.error;
    if (demi_load_memory(model_text, strlen(model_text), NULL, &model, error) != DEMI_OK)
        fail_msg("%s", error->message);
    assert_int_equal(demi_passes_new(&passes, error), DEMI_OK);
    outcome.status = demi_passes_add(passes, plugin_entry, error);
    options.passes = passes;
    options.unchecked = true; /* graphs here are about names and structure */
    options.text = collect;
    options.text_user = &outcome.printed;
    if (outcome.status == DEMI_OK)
        outcome.status = demi_run_pipeline(model, pipeline, &options, &report, error);
    if (outcome.status == DEMI_OK) {
        assert_int_equal(demi_print(model, true, collect, &outcome.model, error), DEMI_OK);
        outcome.rewrites = demi_report_totals(report)->rewrites;
    }
    demi_report_free(report);
    demi_free(model);
    demi_passes_free(passes);
}

/* The pass alone, which must succeed. */
static inline void run_pass(PassFn run, const char *model_text) {
    describe(run);
    run_on(model_text, "test-pass");
    if (outcome.status != DEMI_OK) fail_msg("%s", outcome.error.message);
}

static inline void expect_model(const char *part) {
    if (!strstr(outcome.model.bytes, part)) fail_msg("no\n%s\nin\n%s", part, outcome.model.bytes);
}

static inline void expect_error(const char *part) {
    assert_int_not_equal(outcome.status, DEMI_OK);
    if (!strstr(outcome.error.message, part))
        fail_msg("no '%s' in '%s'", part, outcome.error.message);
}

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17]>\n"
#define CHAIN                                                                                      \
    HEAD "g (float[N,3] x) => (float[N,3] y)\n"                                                    \
         "<float[3] w = {1, 2, 3}>\n"                                                              \
         "{\n"                                                                                     \
         "    [\"/a\"] h = Add (x, w)\n"                                                           \
         "    [\"/b\"] y = Relu (h)\n"                                                             \
         "}\n"

/* Attributes of all kinds, subgraphs that capture, a function. */
#define RICH                                                                                       \
    "<ir_version: 8, opset_import: [\"\" : 17, \"com.x\" : 2], metadata_props: [\"k\": \"v\"]>\n"  \
    "g (float[N,3] x, bool c) => (float[N,?] y, int64 z)\n"                                        \
    "<float[2,2] w = {1, 2, 3, 4}, int64 n = {7}>\n"                                               \
    "{\n"                                                                                          \
    "    [first] a = com.x.Op <i: int = 3, f: float = 1.5, s = \"str\", is = [1, 2],"              \
    " fs = [0.5], ss = [\"p\", \"q\"], t = float[2] {5, 6}> (x, , w)\n"                            \
    "    y = If (c) <\n"                                                                           \
    "        then_branch = th () => (float[N,3] p) { p = Relu (a) },\n"                            \
    "        else_branch = el () => (float[N,3] q) { q = com.x.F (a) }>\n"                         \
    "    z = Identity (n)\n"                                                                       \
    "}\n"                                                                                          \
    "<domain: \"com.x\", opset_import: [\"\" : 17]>\n"                                             \
    "F (u) => (v) { v = Tanh (u) }\n"

#endif
