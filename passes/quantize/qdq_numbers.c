// SPDX-License-Identifier: Apache-2.0
/* See qdq_numbers.h. Weights are cut along the outermost axis that has several places. Where scales do not
 * go along with that one, magnitudes are found of all pieces first, and the pieces read once more. */
#include "qdq_numbers.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "dequantized.h"
#include "workers.h"

enum { PIECE = 1 << 16 }; /* elements: what a core's own cache holds */
enum { DRIFT = 1 << 16 }; /* parts of a scale */

typedef enum Cut { CUT_OUTER, CUT_AXIS, CUT_INNER } Cut;

/* An item while it is worked at. */
typedef struct Item {
    QdqNumbers *numbers;
    QdqWeights layout; /* as it is cut */
    bool looks;        /* only looks whether all are finite */
    Cut cut;
    uint64_t units, unit; /* in how many the axis can be cut, and elements of one */
    bool twice;           /* magnitudes before scales */
    uint64_t places;      /* along the axis, whose magnitudes are found; 1: of all as one */
    float *peaks;         /* [lanes][places], where twice */
    int64_t *drifts; /* [lanes][drifts][axis], in parts of DRIFT: no order of adding them matters */
    atomic_bool bad;
} Item;

typedef struct Piece {
    Item *item;
    uint64_t first, count; /* units */
} Piece;

typedef struct Lane {
    float *window, *sums; /* the latter of a piece's channels */
    Err err;
} Lane;

typedef struct Job {
    size_t count; /* items */
    bool twice;   /* one of them is read so */
    VEC(Piece) pieces;
    Lane *lanes;
    uint64_t window, channels; /* elements of the largest piece; of the item with the most */
} Job;

/* Whether scales of blocks have one for all, of the largest weight. */
static bool has_whole(const Item *item) {
    const QdqWeights *w = &item->numbers->layout;
    return w->block && w->stored && w->stored != DTYPE_FLOAT8E8M0;
}

/* ---- cutting --------------------------------------------------------------------------------- */

static Item item_of(QdqNumbers *numbers) {
    Item item = {.numbers = numbers, .layout = numbers->layout, .cut = CUT_INNER, .unit = 1};
    QdqWeights *w = &item.layout;
    item.looks = w->block && !numbers->bytes;
    if (item.looks)
        *w = (QdqWeights){.outer = 1, .axis = 1, .inner = tensor_count(numbers->tensor)};
    item.units = w->inner;
    if (w->outer > 1) {
        item.cut = CUT_OUTER;
        item.units = w->outer;
        item.unit = w->axis * w->inner;
    } else if (w->axis > 1 || w->block) {
        const uint64_t block = w->block ? w->block : 1;
        item.cut = CUT_AXIS;
        item.units = (w->axis + block - 1) / block;
        item.unit = (block < w->axis ? block : w->axis) * w->inner;
    }
    return item;
}

/* Elements of 4 bits and less share bytes, which are one piece's alone. */
static uint64_t units_of_piece(const Item *item) {
    const unsigned bits = dtype_bits(item->layout.dtype);
    uint64_t units = item->unit < PIECE ? PIECE / item->unit : 1;
    while (units * item->unit * bits % 8) units++;
    return units;
}

static void cut(Job *job, Item *item, Arena *scratch) {
    const uint64_t units = units_of_piece(item);
    for (uint64_t first = 0; first < item->units; first += units) {
        const uint64_t left = item->units - first;
        const Piece piece = {item, first, left < units ? left : units};
        VEC_PUSH(scratch, &job->pieces, piece);
        if (piece.count * item->unit > job->window) job->window = piece.count * item->unit;
    }
    const QdqWeights *w = &item->numbers->layout;
    const bool by_channel = !w->block && item->cut != CUT_AXIS && item->units > units;
    item->places = w->block ? 1 : w->axis;
    item->twice = has_whole(item) || (!item->looks && by_channel);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Where a piece begins, and how it lies. */
typedef struct Place {
    QdqWeights weights;
    uint64_t element, scale;
} Place;

static Place place_of(const Piece *piece, const float *window) {
    const Item *item = piece->item;
    Place place = {.weights = item->layout, .element = piece->first * item->unit};
    QdqWeights *w = &place.weights;
    const uint64_t block = w->block ? w->block : 1, blocks = (w->axis + block - 1) / block;
    w->items = window;
    if (item->cut == CUT_OUTER) {
        w->outer = piece->count;
        place.scale = w->block ? piece->first * blocks * w->inner : 0;
    } else if (item->cut == CUT_AXIS) {
        const uint64_t left = w->axis - piece->first * block;
        w->axis = piece->count * block < left ? piece->count * block : left;
        place.scale = w->block ? piece->first * w->inner : piece->first;
    } else {
        w->inner = piece->count;
    }
    return place;
}

/* Reads the piece; false where there is nothing more to do. */
static bool read_piece(const Piece *piece, Lane *lane, Place *place) {
    const QdqWeights *w = &place->weights;
    const uint64_t count = w->outer * w->axis * w->inner;
    if (lane->err.code != ERR_NONE ||
        !tensor_read_floats(piece->item->numbers->tensor, place->element, count, lane->window,
                            &lane->err))
        return false;
    if (qdq_weights_finite(lane->window, count)) return true;
    atomic_store(&piece->item->bad, true);
    return false;
}

static void peaks_task(void *data, unsigned task, unsigned lane_number) {
    const Job *job = data;
    const Piece *piece = &job->pieces.items[task];
    Lane *lane = &job->lanes[lane_number];
    if (!piece->item->twice) return;
    Place place = place_of(piece, lane->window);
    if (!read_piece(piece, lane, &place)) return;
    if (has_whole(piece->item))
        place.weights =
            (QdqWeights){.items = lane->window,
                         .outer = 1,
                         .axis = 1,
                         .inner = place.weights.outer * place.weights.axis * place.weights.inner};
    qdq_add_peaks(&place.weights, piece->item->peaks + lane_number * piece->item->places);
}

/* Where the factors of the piece's weights begin. */
static QdqFactors factors_of(const Piece *piece, const Place *place, const QdqDrift *drift) {
    const QdqWeights *w = &piece->item->numbers->layout;
    const uint64_t skipped = piece->item->cut == CUT_OUTER   ? piece->first * w->inner
                             : piece->item->cut == CUT_INNER ? piece->first
                                                             : 0;
    const uint64_t group = w->axis / drift->groups;
    return (QdqFactors){drift->weights + skipped, drift->growths + skipped, place->scale, group,
                        w->outer * w->inner};
}

/* Of one piece, whose own order of adding is always the same. */
static void add_drifts(const Piece *piece, const Place *place, Lane *lane, unsigned lane_number) {
    const Item *item = piece->item;
    const QdqNumbers *n = item->numbers;
    const uint64_t axis = n->layout.axis;
    for (size_t d = 0; d < n->drifts.count; d++) {
        const QdqFactors factors = factors_of(piece, place, &n->drifts.items[d]);
        int64_t *sums = item->drifts + (lane_number * n->drifts.count + d) * axis + place->scale;
        qdq_find_drifts(&place->weights, n->scales + place->scale, &factors, lane->sums);
        for (uint64_t a = 0; a < place->weights.axis; a++)
            sums[a] += (int64_t)((double)lane->sums[a] * DRIFT);
    }
}

/* Nothing is to be found by a second look, or after one that is not finite. */
static bool is_done(const Item *item) {
    const QdqNumbers *n = item->numbers;
    return atomic_load(&item->bad) || (item->twice && !n->bytes && !n->drifts.count);
}

static void store_task(void *data, unsigned task, unsigned lane_number) {
    const Job *job = data;
    const Piece *piece = &job->pieces.items[task];
    const QdqNumbers *n = piece->item->numbers;
    Lane *lane = &job->lanes[lane_number];
    Place place = place_of(piece, lane->window);
    const QdqWeights *w = &place.weights;
    float *scales = n->scales + place.scale;
    uint8_t *zeros = n->zeros + place.scale;
    if (is_done(piece->item) || !read_piece(piece, lane, &place) || piece->item->looks) return;
    if (n->grid)
        dequantized_scales(n->grid, &n->layout, place.scale, qdq_scale_count(w), scales, zeros);
    else if (w->block)
        qdq_find_block_scales(w, scales, zeros);
    else if (!piece->item->twice)
        qdq_find_channel_scales(w, n->least ? n->least + place.scale : NULL, scales);
    if (n->bytes)
        qdq_store_weights(w, scales, zeros, n->bytes + place.element * dtype_bits(w->dtype) / 8);
    add_drifts(piece, &place, lane, lane_number);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Of all lanes, in the first one's. */
static void join_peaks(const Item *item, unsigned lanes) {
    for (unsigned k = 1; k < lanes; k++)
        for (uint64_t a = 0; a < item->places; a++) {
            const float peak = item->peaks[k * item->places + a];
            item->peaks[a] = peak > item->peaks[a] ? peak : item->peaks[a];
        }
}

static void scales_of_lanes(Item *item, unsigned lanes) {
    QdqNumbers *n = item->numbers;
    join_peaks(item, lanes);
    if (has_whole(item)) {
        item->layout.whole = n->layout.whole = qdq_whole_scale(&n->layout, *item->peaks);
        return;
    }
    memcpy(n->scales, item->peaks, item->places * sizeof *n->scales);
    qdq_scales_of_peaks(&n->layout, n->least, n->scales);
}

static void drifts_of_lanes(const Item *item, unsigned lanes) {
    const QdqNumbers *n = item->numbers;
    const uint64_t axis = n->layout.axis;
    for (size_t d = 0; d < n->drifts.count; d++)
        for (uint64_t a = 0; a < axis; a++) {
            const QdqDrift *drift = &n->drifts.items[d];
            int64_t sum = 0;
            for (unsigned k = 0; k < lanes; k++)
                sum += item->drifts[(k * n->drifts.count + d) * axis + a];
            drift->sums[a] = (double)sum / DRIFT * drift->unit * (double)n->scales[a];
        }
}

/* What a job and its items work with. */
static void begin_items(Job *job, Item *items, unsigned lanes, Arena *scratch) {
    for (size_t i = 0; i < job->count; i++) {
        const uint64_t axis = items[i].numbers->layout.axis;
        cut(job, &items[i], scratch);
        if (items[i].twice) items[i].peaks = ARENA_ARRAY(scratch, float, lanes *items[i].places);
        const size_t drifts = items[i].numbers->drifts.count;
        items[i].drifts = ARENA_ARRAY(scratch, int64_t, lanes * drifts * axis + 1);
        if (drifts && axis > job->channels) job->channels = axis;
        job->twice = job->twice || items[i].twice;
    }
    for (unsigned k = 0; k < lanes; k++) {
        job->lanes[k].window = ARENA_ARRAY(scratch, float, job->window + 1);
        job->lanes[k].sums = ARENA_ARRAY(scratch, float, job->channels + 1);
    }
}

static bool check_lanes(const Job *job, unsigned lanes, Err *err) {
    for (unsigned k = 0; k < lanes; k++) {
        if (job->lanes[k].err.code == ERR_NONE) continue;
        if (err && err->code == ERR_NONE) *err = job->lanes[k].err;
        return false;
    }
    return true;
}

/* Few weights are done before another thread has begun. */
static Workers *workers_for(const QdqNumbers *numbers, size_t count, Arena *scratch) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) all += tensor_count(numbers[i].tensor);
    return all > 8 * PIECE ? workers_new_streaming(scratch) : workers_new(scratch, 1);
}

bool qdq_numbers_find(QdqNumbers *numbers, size_t count, Arena *scratch, Err *err) {
    Workers *workers = workers_for(numbers, count, scratch);
    const unsigned lanes = workers_lanes(workers);
    Job job = {.count = count, .lanes = ARENA_ARRAY(scratch, Lane, lanes)};
    Item *items = ARENA_ARRAY(scratch, Item, count + 1);
    for (size_t i = 0; i < count; i++) items[i] = item_of(&numbers[i]);
    begin_items(&job, items, lanes, scratch);
    if (job.pieces.count > UINT_MAX)
        return err_set(err, ERR_MODEL, "weights of more than 2^47 elements");
    const unsigned pieces = (unsigned)job.pieces.count;
    if (job.twice) workers_run(workers, pieces, peaks_task, &job);
    for (size_t i = 0; i < count; i++)
        if (items[i].twice) scales_of_lanes(&items[i], lanes);
    if (pieces) workers_run(workers, pieces, store_task, &job);
    for (size_t i = 0; i < count; i++) {
        numbers[i].finite = !atomic_load(&items[i].bad);
        drifts_of_lanes(&items[i], lanes);
    }
    return check_lanes(&job, lanes, err);
}
