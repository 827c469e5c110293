// SPDX-License-Identifier: Apache-2.0
/* See range_share.h. Ends, counts and channel sums are exact, so nothing depends on which process ran which
 * set. */
#include "range_share.h"

#include <string.h>

/* Bytes that are brought together at once, and may be more by one value's. */
enum { CHUNK = 8 << 20 };

static void pack_histogram(ByteBuffer *bytes, const ValueHistogram *h) {
    const uint32_t counted = h->counts != NULL;
    share_pack(bytes, &h->ends, sizeof h->ends);
    share_pack(bytes, &h->few_count, sizeof h->few_count);
    share_pack(bytes, &counted, sizeof counted);
    share_pack(bytes, h->few, h->few_count * sizeof *h->few);
    if (!counted) return;
    share_pack(bytes, &h->first, sizeof h->first);
    share_pack(bytes, &h->exponent, sizeof h->exponent);
    share_pack(bytes, h->counts, VALUE_BINS * sizeof *h->counts);
}

static void unpack_histogram(ShareBytes *bytes, ValueHistogram *h, Arena *arena) {
    uint32_t counted;
    *h = (ValueHistogram)VALUE_NO_HISTOGRAM;
    share_unpack(bytes, &h->ends, sizeof h->ends);
    share_unpack(bytes, &h->few_count, sizeof h->few_count);
    share_unpack(bytes, &counted, sizeof counted);
    if (bytes->cut || h->few_count > VALUE_FEW) {
        bytes->cut = true;
        *h = (ValueHistogram)VALUE_NO_HISTOGRAM;
        return;
    }
    h->few = h->few_count ? ARENA_ARRAY(arena, float, h->few_count) : NULL;
    share_unpack(bytes, h->few, h->few_count * sizeof *h->few);
    if (!counted) return;
    h->counts = ARENA_ARRAY(arena, uint64_t, VALUE_BINS);
    share_unpack(bytes, &h->first, sizeof h->first);
    share_unpack(bytes, &h->exponent, sizeof h->exponent);
    share_unpack(bytes, h->counts, VALUE_BINS * sizeof *h->counts);
}

static void pack_means(ByteBuffer *bytes, const ChannelMeans *means) {
    const uint64_t head[] = {means->count, means->places, means->broken};
    share_pack(bytes, head, sizeof head);
    share_pack(bytes, means->sums, means->count * sizeof *means->sums);
}

/* All but the axis, which is asked for. */
static void unpack_means(ShareBytes *bytes, ChannelMeans *means, Arena *arena) {
    uint64_t head[3];
    share_unpack(bytes, head, sizeof head);
    *means = (ChannelMeans){.places = head[1], .broken = head[2] != 0};
    if (head[0] > bytes->left / sizeof *means->sums) bytes->cut = true;
    if (!head[0] || bytes->cut) return;
    means->count = head[0];
    means->sums = ARENA_ARRAY(arena, ChannelSum, means->count);
    share_unpack(bytes, means->sums, means->count * sizeof *means->sums);
}

static void pack_range(ByteBuffer *bytes, const char *name, const WatchedRange *range) {
    const uint32_t flags = (uint32_t)range->made | (uint32_t)range->input << 1;
    share_pack_text(bytes, name);
    share_pack(bytes, &flags, sizeof flags);
    pack_histogram(bytes, &range->values);
    pack_means(bytes, &range->means);
}

static void join_range(WatchedRanges *ranges, ShareBytes *bytes, Arena *within) {
    ValueHistogram values;
    ChannelMeans means;
    uint32_t flags;
    const char *name = share_unpack_text(bytes, within);
    share_unpack(bytes, &flags, sizeof flags);
    unpack_histogram(bytes, &values, within);
    unpack_means(bytes, &means, within);
    if (bytes->cut || !name) return;
    WatchedRange *range = watched_range(ranges, name);
    range->made = range->made || (flags & 1);
    range->input = range->input || (flags & 2);
    value_histogram_join(&ranges->counter, &range->values, &values);
    channel_means_join(&range->means, &means, ranges->arena);
}

/* Values from `at` on, as many as a chunk takes, behind a word that says whether these are the last. */
static size_t pack_some(const WatchedRanges *mine, size_t at, ByteBuffer *bytes) {
    uint64_t last = 0;
    share_pack(bytes, &last, sizeof last);
    for (; at < mine->items.count && bytes->bytes.count < CHUNK; at++)
        pack_range(bytes, mine->names.names[at]->text, &mine->items.items[at]);
    last = at == mine->items.count;
    memcpy(bytes->bytes.items, &last, sizeof last);
    return at;
}

/* One chunk of process `from`. */
static bool join_some(WatchedRanges *ranges, ByteBuffer *bytes, bool *last, Err *err) {
    ShareBytes all = {bytes->bytes.items, bytes->bytes.count, false};
    uint64_t word;
    share_unpack(&all, &word, sizeof word);
    *last = word != 0;
    while (all.left && !all.cut) join_range(ranges, &all, bytes->arena);
    return share_unpacked(&all, err);
}

/* Adds what each process has found, in the order of processes. */
static bool join_all(WatchedRanges *ranges, const WatchedRanges *mine, const Share *share,
                     Err *err) {
    for (size_t from = 0; from < share->parts; from++) {
        size_t at = 0;
        for (bool last = false; !last;) {
            Arena *within = arena_child(mine->arena);
            ByteBuffer bytes = {.arena = within};
            if (from == share->part) at = pack_some(mine, at, &bytes);
            const bool ok =
                share_spread(share, from, &bytes, err) && join_some(ranges, &bytes, &last, err);
            arena_free(within);
            if (!ok) return false;
        }
    }
    return true;
}

bool watched_ranges_measure(WatchedRanges *ranges, Trials *t, bool selects, bool keep, Err *err) {
    const WatchedRanges *asked = selects ? ranges : NULL;
    if (share_is_alone(&t->share)) return watched_ranges_measure_mine(ranges, t, asked, keep, err);
    Arena *within = arena_child(t->arena);
    WatchedRanges mine = watched_ranges_new(ranges->options, within, t->reference->threads);
    mine.asked = asked;
    const bool ok = watched_ranges_measure_mine(&mine, t, asked, keep, err) &&
                    join_all(ranges, &mine, &t->share, err);
    arena_free(within);
    return ok;
}
