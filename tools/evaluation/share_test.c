// SPDX-License-Identifier: Apache-2.0
/* Sets of inputs that processes share, which here are threads: the same ranges, rounded weights and verdicts for any
 * number of them, and an end for all where one ends. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demi_trials.h"
#include "share.h"
#include "test_source.h"
#include "unit_test.h"

static const char model[] =
    "<ir_version: 8, opset_import: [\"\" : 17]>\n"
    "g (float[N,4] x) => (float[N,3] y, int64[N,1] k)\n"
    "<float[4,4] w = {1, 0.31, -2, 0.7, 0.013, 1, 2, -0.4, 3, 0.9, 1, 0.2, -1, 2, 0.5, 0.1},\n"
    " float[4,3] v = {0.3, 1, 2, -1, 0.11, 0.7, 2, -3, 0.19, 0.05, 0.6, 1}, float[3] b = {0.1, 2, "
    "3}> {\n"
    "  t = MatMul (x, w)\n"
    "  r = Relu (t)\n"
    "  p = MatMul (r, v)\n"
    "  y = Add (p, b)\n"
    "  [pick] k = ArgMax <axis = 1> (y)\n"
    "}";

enum { MOST = 5, SETS = 23, TEXT = 1 << 16 };

/* What they meet in. */
typedef struct Room {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t parts, here, round;
    uint64_t *words, *found;
    bool failed;
} Room;

typedef struct Member {
    Room *room;
    size_t part;
    size_t sets, fails_at; /* its number of sets; a run before which it cancels */
    char text[TEXT];       /* of all that it found */
    DemiStatus status;
    DemiError error;
    pthread_t thread;
} Member;

static bool meet(void *user, uint64_t *words, size_t count) {
    Room *room = ((Member *)user)->room;
    pthread_mutex_lock(&room->lock);
    const size_t round = room->round;
    if (!room->here++) room->words = calloc(count, sizeof *words);
    for (size_t i = 0; room->words && i < count; i++) room->words[i] |= words[i];
    if (room->here == room->parts) {
        free(room->found);
        room->found = room->words;
        room->words = NULL;
        room->here = 0;
        room->round++;
        pthread_cond_broadcast(&room->changed);
    }
    while (room->round == round && !room->failed) pthread_cond_wait(&room->changed, &room->lock);
    const bool met = room->round != round;
    if (met) memcpy(words, room->found, count * sizeof *words);
    pthread_mutex_unlock(&room->lock);
    return met;
}

static bool tell(void *user, const char *what, size_t done, size_t total) {
    const Member *m = user;
    (void)what;
    (void)total;
    return !m->fails_at || done < m->fails_at;
}

static void say(Member *m, const char *format, double number) {
    const size_t length = strlen(m->text);
    snprintf(m->text + length, sizeof m->text - length, format, number);
}

/* Of the sets' numbers each has its own scale, so that sums depend on their order. */
static void fill(float *x, size_t set) {
    for (size_t i = 0; i < 8; i++)
        x[i] = (float)((int)(i * 37 + set * 101) % 19 - 9) * (0.1f + 0.37f * (float)(set % 7));
}

static void say_verdict(Member *m, const DemiVerdict *verdict) {
    if (!verdict) return;
    say(m, " sets %.0f", (double)demi_verdict_totals(verdict)->sets);
    for (size_t i = 0; i < demi_verdict_output_count(verdict); i++) {
        say(m, " error %.17g", demi_verdict_output(verdict, i)->diff.error);
        say(m, " mean %.17g", demi_verdict_output(verdict, i)->diff.mean_abs);
    }
    for (size_t i = 0; i < demi_verdict_pick_count(verdict); i++) {
        say(m, " picked %.0f", (double)demi_verdict_pick(verdict, i)->same);
        say(m, " of %.0f", (double)demi_verdict_pick(verdict, i)->count);
        say(m, " margin %.17g", demi_verdict_pick(verdict, i)->margin);
    }
}

static DemiStatus convert_all(Member *m, DemiTrials *trials) {
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiCalibrateOptions how = DEMI_CALIBRATE_OPTIONS_INIT;
    DemiRanges *ranges = NULL;
    DemiRoundedWeights *weights = NULL;
    DemiVerdict *verdict = NULL;
    convert.to = DEMI_TO_INT8;
    how.ends = true;
    how.method = DEMI_CALIBRATION_BEST;
    how.convert = &convert;
    DemiStatus status = demi_trials_calibrate(trials, &how, &ranges, &m->error);
    if (status == DEMI_OK) {
        for (size_t i = 0; i < demi_ranges_count(ranges); i++) {
            say(m, "range %.0f: ", (double)i);
            strncat(m->text, demi_ranges_texts(ranges)[i], 1000);
        }
        convert.ranges = demi_ranges_texts(ranges);
        convert.range_count = demi_ranges_count(ranges);
        DemiConvertOptions rounds = DEMI_CONVERT_OPTIONS_INIT;
        rounds.to = DEMI_TO_INT8_WEIGHTS;
        rounds.rounding = DEMI_ROUNDING_GPTQ;
        status = demi_trials_round(trials, &rounds, &weights, &m->error);
    }
    for (size_t i = 0; weights && i < demi_rounded_count(weights); i++)
        say(m, " rounded %.17g", demi_rounded_item(weights, i)->chosen);
    if (status == DEMI_OK) status = demi_trials_run(trials, &convert, &verdict, &m->error);
    say_verdict(m, verdict);
    demi_verdict_free(verdict);
    demi_rounded_free(weights);
    demi_ranges_free(ranges);
    return status;
}

/* Another model: of other weights. */
static DemiStatus judge_all(Member *m, DemiTrials *trials) {
    static const char from[] = "0.1, 2, 3}";
    char other[sizeof model];
    DemiVerdict *verdict = NULL;
    memcpy(other, model, sizeof other);
    memcpy(strstr(other, from), "1.6, 2, 3}", sizeof from - 1);
    DemiSource source = source_of(other);
    const DemiStatus status = demi_trials_judge(trials, &source, NULL, &verdict, &m->error);
    say_verdict(m, verdict);
    demi_verdict_free(verdict);
    return status;
}

static DemiStatus search_all(Member *m, DemiTrials *trials) {
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiVerdict *verdict = NULL;
    convert.to = DEMI_TO_BFLOAT16;
    DemiStatus status = demi_trials_search(trials, &convert, 2e-3, &verdict, &m->error);
    if (verdict) {
        say(m, " trials %.0f", (double)demi_verdict_totals(verdict)->trials);
        say(m, " bounded %.17g", demi_verdict_totals(verdict)->error);
        for (size_t i = 0; i < demi_verdict_kept_count(verdict); i++)
            strncat(m->text, demi_verdict_kept(verdict, i), 100);
    }
    demi_verdict_free(verdict);
    return status;
}

static void *work(void *user) {
    Member *m = user;
    const int64_t dims[2] = {2, 4};
    static const DemiTrialOptions plain = DEMI_TRIAL_OPTIONS_INIT;
    float x[SETS][8];
    DemiData data[SETS];
    DemiInputValue values[SETS];
    DemiInputOptions inputs = DEMI_INPUT_OPTIONS_INIT;
    DemiContextOptions context = DEMI_CONTEXT_OPTIONS_INIT;
    DemiTrialOptions options = plain;
    DemiSource source = source_of(model);
    DemiTrials *trials = NULL;
    for (size_t i = 0; i < m->sets; i++) {
        fill(x[i], i);
        data[i] = (DemiData)DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x[i]);
        values[i] = (DemiInputValue){i, "x", &data[i]};
    }
    inputs.values = values;
    inputs.value_count = m->sets;
    context.threads = 1 + (unsigned)m->part % 2;
    options.inputs = &inputs;
    options.context = &context;
    options.progress = tell;
    options.progress_user = m;
    options.part = m->part;
    options.parts = m->room->parts;
    options.combine = meet;
    options.combine_user = m;
    m->error = (DemiError)DEMI_ERROR_INIT;
    m->status = demi_trials_new(&source, &options, &trials, &m->error);
    if (m->status == DEMI_OK) m->status = convert_all(m, trials);
    if (m->status == DEMI_OK) m->status = judge_all(m, trials);
    if (m->status == DEMI_OK) m->status = search_all(m, trials);
    demi_trials_free(trials);
    pthread_mutex_lock(&m->room->lock);
    if (m->status != DEMI_OK) m->room->failed = true;
    pthread_cond_broadcast(&m->room->changed);
    pthread_mutex_unlock(&m->room->lock);
    return NULL;
}

static void run_all(Member *members, size_t parts) {
    Room room = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .parts = parts};
    for (size_t i = 0; i < parts; i++) {
        members[i].room = &room;
        members[i].part = i;
        members[i].text[0] = '\0';
        assert_int_equal(pthread_create(&members[i].thread, NULL, work, &members[i]), 0);
    }
    for (size_t i = 0; i < parts; i++) assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    free(room.words);
    free(room.found);
}

static Member *members_new(void) {
    Member *members = calloc(MOST, sizeof *members);
    assert_non_null(members);
    for (size_t i = 0; i < MOST; i++) members[i].sets = SETS;
    return members;
}

TEST(test_same_for_any_number) {
    Member *members = members_new();
    run_all(members, 1);
    assert_string_equal(members[0].error.message, "");
    assert_non_null(strstr(members[0].text, "rounded"));
    assert_non_null(strstr(members[0].text, "bounded"));
    assert_non_null(strstr(members[0].text, "picked"));
    char *alone = strdup(members[0].text);
    for (size_t parts = 2; parts <= MOST; parts++) {
        run_all(members, parts);
        for (size_t i = 0; i < parts; i++) {
            assert_int_equal(members[i].status, DEMI_OK);
            assert_string_equal(members[i].text, alone);
        }
    }
    free(alone);
    free(members);
}

/* Fewer sets than processes. */
TEST(test_some_have_none) {
    Member *members = members_new();
    for (size_t i = 0; i < MOST; i++) members[i].sets = 2;
    run_all(members, 1);
    char *alone = strdup(members[0].text);
    run_all(members, MOST);
    for (size_t i = 0; i < MOST; i++) assert_string_equal(members[i].text, alone);
    free(alone);
    free(members);
}

TEST(test_one_ends) {
    Member *members = members_new();
    members[2].fails_at = 4;
    run_all(members, 3);
    assert_int_equal(members[0].status, DEMI_ERR_ENV);
    assert_int_equal(members[1].status, DEMI_ERR_ENV);
    assert_int_equal(members[2].status, DEMI_ERR_CANCELLED);
    free(members);
}

TEST(test_other_sets) {
    Member *members = members_new();
    members[1].sets = SETS - 1;
    run_all(members, 2);
    assert_int_equal(members[0].status, DEMI_ERR_USAGE);
    assert_int_equal(members[1].status, DEMI_ERR_USAGE);
    free(members);
}

TEST(test_wrong_part) {
    DemiSource source = source_of(model);
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    DemiTrials *trials = NULL;
    options.part = options.parts = 2;
    assert_int_equal(demi_trials_new(&source, &options, &trials, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.what, "cannot combine part 2 of 2");
    assert_null(trials);
}

/* Bytes that are cut, as another version's may be. */
TEST(test_cut) {
    Arena *arena = arena_child(&test_arena);
    ByteBuffer bytes = {.arena = arena};
    Err err = {.code = ERR_NONE};
    uint64_t number = 7;
    share_pack_text(&bytes, "text");
    share_pack_text(&bytes, NULL);
    share_pack(&bytes, &number, sizeof number);
    for (size_t left = 0; left <= bytes.bytes.count; left++) {
        ShareBytes all = {bytes.bytes.items, left, false};
        const char *text = share_unpack_text(&all, arena), *none = share_unpack_text(&all, arena);
        share_unpack(&all, &number, sizeof number);
        assert_null(none);
        assert_int_equal(all.cut, left < bytes.bytes.count);
        if (all.cut) assert_int_equal(number, 0);
        if (!all.cut) assert_string_equal(text, "text");
        if (!all.cut) assert_int_equal(number, 7);
    }
    ShareBytes more = {bytes.bytes.items, bytes.bytes.count, false};
    assert_false(share_unpacked(&more, &err));
    arena_free(arena);
}

static bool take(void *user, uint64_t set, ShareBytes *bytes, Err *err) {
    uint64_t *sets = user, seen;
    share_unpack(bytes, &seen, sizeof seen);
    assert_int_equal(seen, 100 + set);
    sets[++sets[0]] = set;
    return share_unpacked(bytes, err);
}

/* Whatever the order in which they were made. */
TEST(test_records_in_order) {
    static const uint64_t made[] = {4, 1, 3, 0, 2};
    Share alone = {.parts = 1};
    Arena *arena = arena_child(&test_arena);
    ByteBuffer bytes = {.arena = arena};
    Err err = {.code = ERR_NONE};
    uint64_t sets[6] = {0};
    for (size_t i = 0; i < 5; i++) {
        const uint64_t number = 100 + made[i];
        share_record_drop(&bytes, share_record_begin(&bytes, 9)); /* of a set whose run failed */
        const size_t begun = share_record_begin(&bytes, made[i]);
        share_pack(&bytes, &number, sizeof number);
        share_record_end(&bytes, begun);
    }
    assert_true(share_records(&alone, &bytes, take, sets, &err));
    assert_int_equal(sets[0], 5);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(sets[i + 1], i);
    arena_free(arena);
}
