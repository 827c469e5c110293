// SPDX-License-Identifier: Apache-2.0
/* Drawings of a search as SVG: plain shapes with classes, so that they look right alone and within the
 * page. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "page_palette.h"
#include "search_out.h"
#include "escaped.h"

enum { WIDTH = 760, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 24, BOTTOM = 52, ROW = 18 };

typedef struct Drawing {
    DemiWriteFn write;
    void *user;
    bool failed;
} Drawing;

static void put(Drawing *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(Drawing *d, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (d->failed || size < 0) return;
    d->failed =
        !d->write(d->user, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* Text of a model within an element, at most so many characters of it. */
static void put_text(Drawing *d, const char *text, size_t length, size_t most) {
    char safe[512];
    size_t used = 0, count = 0;
    for (size_t left = length; left && used + SHOWN_MOST + 8 < sizeof safe;) {
        char shown[SHOWN_MOST];
        size_t size, taken = escaped_take(text, left, shown, &size);
        const char *entity = shown[0] == '<'   ? "&lt;"
                             : shown[0] == '&' ? "&amp;"
                             : shown[0] == '"' ? "&quot;"
                                               : shown;
        if (count++ == most) {
            used += (size_t)snprintf(safe + used, sizeof safe - used, "\xe2\x80\xa6");
            break;
        }
        used += (size_t)snprintf(safe + used, sizeof safe - used, "%s", entity);
        text += taken;
        left -= taken;
    }
    safe[used] = '\0';
    put(d, "%s", safe);
}

static void begin(Drawing *d, int height, const char *label) {
    put(d,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
        "aria-label=\"%s\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
        WIDTH, height, label);
    put(d, "<style>\n.front{fill:none;stroke-width:2}.best{fill:none;stroke-width:2.5}"
           ".target{stroke-dasharray:5 4}.line{stroke-width:1}\n");
    d->failed = d->failed || !palette_write_classes(d->write, d->user);
    put(d, "</style>\n");
}

/* ---- scales ---------------------------------------------------------------------------------- */

typedef struct Axis {
    double low, high;
    int from, to; /* pixels */
} Axis;

static double place(const Axis *axis, double number) {
    const double part =
        axis->high > axis->low ? (number - axis->low) / (axis->high - axis->low) : 0.5;
    return axis->from + part * (axis->to - axis->from);
}

/* 1, 2 or 5 times a power of ten, of which about five fit. */
static double step_of(const Axis *axis) {
    const double span = axis->high - axis->low, rough = span > 0 ? span / 5 : 1;
    const double power = pow(10, floor(log10(rough))), part = rough / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void widen(Axis *axis, double number) {
    if (!isfinite(number)) return;
    if (!(axis->low <= number)) axis->low = number;
    if (!(axis->high >= number)) axis->high = number;
}

static void margin(Axis *axis) {
    const double span = axis->high - axis->low, more = span > 0 ? span * 0.06 : 1;
    axis->low -= more;
    axis->high += more;
}

static void draw_axes(Drawing *d, const Axis *x, const Axis *y, const char *below) {
    const double dx = step_of(x), dy = step_of(y);
    for (double at = ceil(x->low / dx) * dx; at <= x->high; at += dx)
        put(d,
            "<line class=\"line stroke-line\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
            "<text class=\"fill-soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
            place(x, at), place(x, at), y->to, y->from, place(x, at), y->from + 17,
            fabs(at) < dx / 1e6 ? 0 : at);
    for (double at = ceil(y->low / dy) * dy; at <= y->high; at += dy)
        put(d,
            "<line class=\"line stroke-line\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text class=\"fill-soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
            x->from, x->to, place(y, at), place(y, at), x->from - 6, place(y, at) + 4,
            fabs(at) < dy / 1e6 ? 0 : at);
    put(d, "<text class=\"fill-ink\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
        (x->from + x->to) / 2, y->from + 38, below);
}

/* ---- the front ------------------------------------------------------------------------------- */

typedef struct ByCost {
    double share, score;
} ByCost;

static int by_cost(const void *a, const void *b) {
    const ByCost *x = a, *y = b;
    if (x->share != y->share) return x->share < y->share ? -1 : 1;
    return x->score < y->score ? -1 : x->score > y->score;
}

static void draw_line(Drawing *d, const DemiSearch *search, const Axis *x, const Axis *y) {
    const size_t count = demi_search_point_count(search);
    ByCost *points = malloc((count + 1) * sizeof *points);
    size_t found = 0;
    for (size_t i = 0; points && i < count; i++) {
        const DemiSearchPoint *point = demi_search_point(search, i);
        if (point->on_front && isfinite(point->score))
            points[found++] = (ByCost){search_share(search, point), point->score};
    }
    if (points) qsort(points, found, sizeof *points, by_cost);
    put(d, "<polyline class=\"front stroke-ink\" points=\"");
    double highest = -INFINITY; /* of what is cheaper: fronts are of a second cost, too */
    for (size_t i = 0; i < found; i++) {
        const bool last = i + 1 == found || points[i + 1].share != points[i].share;
        if (!last || points[i].score <= highest)
            continue; /* the best of those that cost the same */
        highest = points[i].score;
        put(d, "%.1f,%.1f ", place(x, points[i].share), place(y, points[i].score));
    }
    put(d, "\"/>\n");
    free(points);
}

/* By DemiSearchCost. */
static const char *const costs[] = {"BitOps, relative to the widest precisions",
                                    "bytes, relative to the widest precisions",
                                    "predicted time, relative to the widest precisions"};

bool search_draw_front(const SearchTitle *title, DemiWriteFn write, void *user) {
    Drawing d = {write, user, false};
    const DemiSearch *search = title->search;
    const DemiSearchTotals *totals = demi_search_totals(search);
    Axis x = {NAN, NAN, LEFT, WIDTH - RIGHT}, y = {NAN, NAN, HEIGHT - BOTTOM, TOP};
    for (size_t i = 0; i < demi_search_point_count(search); i++) {
        widen(&x, search_share(search, demi_search_point(search, i)));
        widen(&y, demi_search_point(search, i)->score);
    }
    widen(&x, 0);
    widen(&y, totals->target);
    margin(&x);
    margin(&y);
    begin(&d, HEIGHT, "Score by cost");
    draw_axes(&d, &x, &y, costs[title->cost]);
    put(&d, "<text class=\"fill-ink\" x=\"%d\" y=\"%d\">%s</text>\n", x.from, TOP - 8,
        title->metric);
    if (isfinite(totals->target))
        put(&d, "<line class=\"target stroke-bad\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
            x.from, x.to, place(&y, totals->target), place(&y, totals->target));
    draw_line(&d, search, &x, &y);
    for (size_t i = 0; i < demi_search_point_count(search); i++) {
        const DemiSearchPoint *point = demi_search_point(search, i);
        if (!isfinite(point->score)) continue;
        const double share = search_share(search, point);
        put(&d,
            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%.4g at %.4g</title>"
            "</circle>\n",
            point->on_front ? "fill-ink" : "fill-other", place(&x, share), place(&y, point->score),
            point->on_front ? 4 : 3, point->score, share);
        if (i == totals->best)
            put(&d, "<circle class=\"best stroke-link\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/>\n",
                place(&x, share), place(&y, point->score));
    }
    put(&d, "</svg>\n");
    return !d.failed;
}

/* ---- groups ---------------------------------------------------------------------------------- */

typedef struct ByNoise {
    const DemiSearchGroup *group;
    double noise;
    size_t left_out; /* of its name: what most begin with */
} ByNoise;

static int by_noise(const void *a, const void *b) {
    const ByNoise *x = a, *y = b;
    if (x->noise != y->noise) return x->noise > y->noise ? -1 : 1;
    return strcmp(x->group->name, y->group->name);
}

/* The groups of which something was measured, the worst first. */
static size_t sort_groups(const DemiSearch *search, ByNoise *sorted) {
    const size_t candidates = demi_search_candidate_count(search);
    size_t count = 0;
    for (size_t i = 0; i < demi_search_group_count(search); i++) {
        const DemiSearchGroup *group = demi_search_group(search, i);
        double most = -1;
        for (size_t c = 0; c < candidates; c++)
            if (group->noise[c] > most) most = group->noise[c];
        if (most > 0) sorted[count++] = (ByNoise){group, most, 0};
    }
    qsort(sorted, count, sizeof *sorted, by_noise);
    return count;
}

/* The length of a name's part that begins at `from`, up to behind its separators; 0 where none
 * follows, or nothing follows it. */
static size_t part_length(const char *name, size_t from) {
    size_t end = from + strcspn(name + from, "/.:");
    if (!name[end]) return 0;
    end += strspn(name + end, "/.:");
    return name[end] ? end - from : 0;
}

/* What four of five names or more begin with, up to a separator, as a length of *whose name; the
 * same as commonPrefix in page_common.js. */
static size_t common_prefix(const ByNoise *rows, size_t count, const char **whose) {
    enum { LEAST = 4 };
    size_t length = 0;
    *whose = "";
    for (size_t part = 1; part && count > 1; length += part) {
        const char *name = *whose;
        size_t most = 0, before = length;
        part = 0;
        for (size_t i = 0; i < count; i++) {
            const char *at = rows[i].group->name;
            if (strncmp(at, name, before) != 0) continue;
            const size_t size = part_length(at, before);
            size_t alike = 0;
            for (size_t k = 0; size && k < count; k++)
                alike += strncmp(rows[k].group->name, at, before + size) == 0;
            if (alike <= most || 5 * alike < 4 * count) continue;
            most = alike;
            part = size;
            *whose = at;
        }
    }
    return length < LEAST ? 0 : length;
}

Dtype search_type(const DemiSearch *search, size_t candidate, bool weights) {
    const char *name = demi_search_candidate_type(search, candidate, weights);
    return dtype_from_name(name, strlen(name));
}

const char *search_color(const DemiSearch *search, size_t candidate, char name[SEARCH_COLOR]) {
    const char *own = demi_search_candidate(search, candidate);
    const Dtype values = search_type(search, candidate, false);
    const Dtype weights = search_type(search, candidate, true);
    const bool floats = values == DTYPE_FLOAT || dtype_is_reduced(values);
    if (palette_has(own))
        snprintf(name, SEARCH_COLOR, "%s", own);
    else if (floats)
        snprintf(name, SEARCH_COLOR, "w%u", dtype_bits(weights));
    else
        snprintf(name, SEARCH_COLOR, "a%uw%u", dtype_bits(values), dtype_bits(weights));
    return palette_has(name) ? name : "other";
}

static void draw_group(Drawing *d, const DemiSearch *search, const ByNoise *row, const Axis *x,
                       int top) {
    put(d, "<text class=\"fill-ink\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", x->from - 8,
        top + 13);
    put(d, "%s", row->left_out ? "\xe2\x80\xa6" : "");
    const char *name = row->group->name + row->left_out;
    char color[SEARCH_COLOR];
    put_text(d, name, strlen(name), 30);
    put(d, "</text>\n<line class=\"line stroke-line\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n",
        x->from, x->to, top + ROW / 2, top + ROW / 2);
    for (size_t c = 0; c < demi_search_candidate_count(search); c++) {
        const double noise = row->group->noise[c];
        if (!(noise > 0)) continue;
        put(d,
            "<circle class=\"fill-%s\" cx=\"%.1f\" cy=\"%d\" r=\"%d\"><title>%s: "
            "%.3g</title></circle>\n",
            search_color(search, c, color), place(x, isfinite(noise) ? log10(noise) : x->high),
            top + ROW / 2, row->group->candidate == c ? 6 : 4, demi_search_candidate(search, c),
            noise);
    }
}

bool search_draw_groups(const SearchTitle *title, DemiWriteFn write, void *user) {
    enum { MOST = 60, NAMES = 220 };
    Drawing d = {write, user, false};
    const DemiSearch *search = title->search;
    char color[SEARCH_COLOR];
    ByNoise *sorted = malloc((demi_search_group_count(search) + 1) * sizeof *sorted);
    const size_t all = sorted ? sort_groups(search, sorted) : 0, count = all < MOST ? all : MOST;
    Axis x = {NAN, NAN, NAMES, WIDTH - RIGHT};
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < demi_search_candidate_count(search); c++)
            if (sorted[i].group->noise[c] > 0) widen(&x, log10(sorted[i].group->noise[c]));
    margin(&x);
    const int height = TOP + ROW * (int)count + BOTTOM;
    Axis y = {0, 1, height - BOTTOM, TOP};
    begin(&d, height, "Sensitivity of the outputs to each group");
    for (double at = ceil(x.low); at <= x.high; at++)
        put(&d,
            "<text class=\"fill-soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">1e%g</text>\n",
            place(&x, at), y.from + 17, at);
    put(&d,
        "<text class=\"fill-ink\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">noise of the outputs, "
        "relative to their signal</text>\n",
        (x.from + x.to) / 2, y.from + 38);
    for (size_t c = 0, left = NAMES; c < demi_search_candidate_count(search); c++, left += 110)
        put(&d,
            "<circle class=\"fill-%s\" cx=\"%zu\" cy=\"12\" r=\"5\"/><text class=\"fill-soft\" "
            "x=\"%zu\" "
            "y=\"16\">%s</text>\n",
            search_color(search, c, color), left, left + 9, demi_search_candidate(search, c));
    const char *prefix;
    const size_t length = common_prefix(sorted, count, &prefix);
    for (size_t i = 0; i < count; i++) {
        sorted[i].left_out = strncmp(sorted[i].group->name, prefix, length) == 0 ? length : 0;
        draw_group(&d, search, &sorted[i], &x, TOP + ROW * (int)i);
    }
    if (length) {
        put(&d, "<text class=\"fill-soft\" x=\"%d\" y=\"%d\">\xe2\x80\xa6 stands for ", 4,
            height - 24);
        put_text(&d, prefix, length, 90);
        put(&d, "</text>\n");
    }
    if (!count)
        put(&d, "<text class=\"fill-soft\" x=\"%d\" y=\"%d\">no group was measured alone</text>\n",
            4, height - 8);
    if (all > count)
        put(&d, "<text class=\"fill-soft\" x=\"%d\" y=\"%d\">%zu of %zu groups</text>\n", 4,
            height - 8, count, all);
    put(&d, "</svg>\n");
    free(sorted);
    return !d.failed;
}
