// SPDX-License-Identifier: Apache-2.0
/* Strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch. Texts are bytes that need
 * not be valid UTF-8; parts of texts point into their source, whose text lives as long as the run.
 */
#include <string.h>

#include "checked.h"
#include "kernel_functions.h"
#include "kernel_letters.h"
#include "kernel_order.h"
#include "kernel_strided.h"
#include "regex_match.h"

/* ---- StringConcat ---------------------------------------------------------------------------- */

static KernelString join(KernelCall *call, KernelString a, KernelString b) {
    if (a.size == 0 || b.size == 0) return a.size ? a : b;
    char *text = kernel_chars(call, a.size + b.size); /* both are in memory: no overflow */
    memcpy(text, a.text, a.size);
    memcpy(text + a.size, b.text, b.size);
    return (KernelString){a.size + b.size, text};
}

/* An operand spread over the output's dims: pointers need no more room than indices. */
static const KernelString *spread(KernelCall *call, const KernelTensor *in,
                                  const KernelTensor *out) {
    KernelString *all = ARENA_ARRAY(call->scratch, KernelString, out->count);
    StridedWalk walk = strided_new(call, out->rank);
    int64_t step = 1;
    strided_set_dims(&walk, out->dims);
    strided_set_to(&walk, out->dims);
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t size = in->dims[in->rank - 1 - i];
        walk.axes[out->rank - 1 - i].from = size == 1 ? 0 : step;
        step *= size;
    }
    strided_copy(&walk, all, in->data, sizeof *all);
    return all;
}

bool kernel_string_concat(KernelCall *call) {
    KernelTensor *out = &call->outputs[0];
    if (out->count == 0) return true;
    const KernelString *left = spread(call, &call->inputs[0], out);
    const KernelString *right = spread(call, &call->inputs[1], out);
    KernelString *to = out->data;
    for (uint64_t i = 0; i < out->count; i++) to[i] = join(call, left[i], right[i]);
    return true;
}

/* ---- StringSplit ----------------------------------------------------------------------------- */

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static const char *find(const char *from, const char *end, const AttrText *what) {
    for (; (uint64_t)(end - from) >= what->size; from++) {
        from = memchr(from, what->text[0], (size_t)(end - from));
        if (!from || (uint64_t)(end - from) < what->size) return end;
        if (memcmp(from, what->text, what->size) == 0) return from;
    }
    return end;
}

/* Splits at white space, which is dropped at both ends. Writes parts where `to` is not NULL. */
static uint64_t split_spaces(KernelString text, uint64_t most, KernelString *to) {
    uint64_t count = 0, at = 0, size = text.size;
    for (;;) {
        while (at < size && is_space(text.text[at])) at++;
        if (at == size) return count;
        uint64_t start = at;
        if (count == most) {
            at = size; /* the rest is one part */
            while (is_space(text.text[at - 1])) at--;
            if (to) to[count] = (KernelString){at - start, text.text + start};
            return count + 1;
        }
        while (at < size && !is_space(text.text[at])) at++;
        if (to) to[count] = (KernelString){at - start, text.text + start};
        count++;
    }
}

static uint64_t split_text(KernelString text, const StringSplitAttrs *attrs, KernelString *to) {
    uint64_t most = attrs->most < 0 ? UINT64_MAX : (uint64_t)attrs->most, count = 0;
    if (attrs->delimiter.size == 0) return split_spaces(text, most, to);
    if (text.size == 0) {
        if (to) *to = text;
        return 1;
    }
    const char *at = text.text, *end = text.text + text.size;
    for (;;) {
        const char *next = count == most ? end : find(at, end, &attrs->delimiter);
        if (to) to[count] = (KernelString){(uint64_t)(next - at), at};
        count++;
        if (next == end) return count;
        at = next + attrs->delimiter.size;
    }
}

bool kernel_string_split(KernelCall *call) {
    const StringSplitAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    const KernelString *texts = in->data;
    uint64_t widest = 0;
    int64_t *counts = ARENA_ARRAY(call->scratch, int64_t, in->count);
    for (uint64_t i = 0; i < in->count; i++) {
        uint64_t count = split_text(texts[i], attrs, NULL);
        counts[i] = (int64_t)count;
        if (count > widest) widest = count;
    }
    int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, in->rank + 1);
    for (uint32_t i = 0; i < in->rank; i++) dims[i] = in->dims[i];
    dims[in->rank] = (int64_t)widest;
    if (kernel_result(call, 1)) {
        if (!kernel_output(call, 1, in->rank, in->dims)) return false;
        if (call->outputs[1].dtype != DTYPE_INT64)
            return kernel_fail(call, "output 1 is not int64");
        if (in->count) memcpy(call->outputs[1].data, counts, in->count * sizeof *counts);
    }
    if (!kernel_result(call, 0)) return true;
    if (!kernel_output(call, 0, in->rank + 1, dims)) return false;
    if (call->outputs[0].dtype != DTYPE_STRING)
        return kernel_fail(call, "output 0 is not a string");
    strided_fill(&call->outputs[0], NULL);
    for (uint64_t i = 0; widest && i < in->count; i++)
        split_text(texts[i], attrs, (KernelString *)call->outputs[0].data + i * widest);
    return true;
}

/* ---- StringNormalizer ------------------------------------------------------------------------ */

static KernelString changed(KernelCall *call, KernelString text, int64_t change) {
    if (change == LETTERS_SAME || text.size == 0) return text;
    char *to = kernel_chars(call, text.size * LETTERS_GROWTH);
    return (KernelString){letters_change(text.text, text.size, (LettersChange)change, to), to};
}

typedef struct StopWords {
    const KernelString *words;
    uint64_t count;
} StopWords;

static int compare_words(const void *context, uint64_t a, uint64_t b) {
    const KernelString *words = context;
    return order_strings(&words[a], &words[b]);
}

/* Sorted, in lower case where case does not matter. */
static StopWords stop_words(KernelCall *call) {
    const StringNormalizerAttrs *attrs = call->attrs;
    uint64_t count = attrs->stopwords.present ? attrs->stopwords.count : 0;
    KernelString *words = ARENA_ARRAY(call->scratch, KernelString, count);
    KernelString *sorted = ARENA_ARRAY(call->scratch, KernelString, count);
    for (uint64_t i = 0; i < count; i++) {
        KernelString word = {attrs->stopwords.items[i].size, attrs->stopwords.items[i].text};
        words[i] = changed(call, word, attrs->sensitive ? LETTERS_SAME : LETTERS_LOWER);
    }
    const uint64_t *order = order_sort(call, count, compare_words, words);
    for (uint64_t i = 0; i < count; i++) sorted[i] = words[order[i]];
    return (StopWords){sorted, count};
}

static bool is_stop_word(const StopWords *stops, const KernelString *word) {
    uint64_t low = 0, high = stops->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = order_strings(word, &stops->words[middle]);
        if (order == 0) return true;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* [C] or [1, C] to what is left of C; a single empty string where nothing is. */
bool kernel_string_normalizer(KernelCall *call) {
    const StringNormalizerAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    const KernelString *texts = in->data;
    uint64_t count = 0;
    if (attrs->change < 0) return kernel_fail(call, "case_change_action is unknown");
    if (in->rank != 1 && (in->rank != 2 || in->dims[0] != 1))
        return kernel_fail(call, "the input is neither [C] nor [1, C]");
    StopWords stops = stop_words(call);
    KernelString *kept = ARENA_ARRAY(call->scratch, KernelString, in->count + 1);
    for (uint64_t i = 0; i < in->count; i++) {
        int64_t fold = attrs->sensitive || stops.count == 0 ? LETTERS_SAME : LETTERS_LOWER;
        KernelString folded = changed(call, texts[i], fold);
        if (!is_stop_word(&stops, &folded)) kept[count++] = changed(call, texts[i], attrs->change);
    }
    if (count == 0) kept[count++] = (KernelString){0, ""};
    const int64_t dims[] = {1, (int64_t)count};
    if (!kernel_output(call, 0, in->rank, in->rank == 2 ? dims : dims + 1)) return false;
    if (call->outputs[0].dtype != DTYPE_STRING)
        return kernel_fail(call, "the output is not a string");
    memcpy(call->outputs[0].data, kept, count * sizeof *kept);
    return true;
}

/* ---- RegexFullMatch -------------------------------------------------------------------------- */

bool kernel_regex_full_match(KernelCall *call) {
    const RegexAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    Err err = {0};
    if (in->dtype != DTYPE_STRING || out->dtype != DTYPE_BOOL)
        return kernel_fail(call, "it reads strings and returns bools");
    if (!attrs->pattern.present) return kernel_fail(call, "pattern is missing");
    if (memchr(attrs->pattern.text, 0, attrs->pattern.size))
        return kernel_fail(call, "the pattern holds a NUL");
    const char *pattern = arena_copy(call->scratch, attrs->pattern.text, attrs->pattern.size);
    Regex *regex = regex_compile(call->scratch, pattern, &err);
    if (!regex) return kernel_fail(call, "cannot compile the pattern: %s", err.what);
    const KernelString *texts = in->data;
    for (uint64_t i = 0; i < in->count; i++) {
        kernel_checkpoint(call);
        ((uint8_t *)out->data)[i] =
            regex_matches_until(regex, texts[i].text, texts[i].size, call->end);
    }
    return true;
}
