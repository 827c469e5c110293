// SPDX-License-Identifier: Apache-2.0
/* Where a session's inputs come from: --dim, --shape, --input, --data (session_sets.c), --random;
 * see session.h. Any mismatch is one line that lists all inputs with type and shape. */
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "random_values.h"
#include "session_parts.h"
#include "text_distance.h"
#include "value_io.h"

typedef struct Finder {
    Session *session;
    Arena *arena;
    const DemiInputOptions *options;
    Err *err;
} Finder;

/* ---- messages -------------------------------------------------------------------------------- */

static bool blame_input(Finder *f, size_t i) {
    return session_blame(f->session, f->arena, i, f->err);
}

static bool unknown_input(Finder *f, const char *option, const char *name) {
    return session_no_input(f->session, f->arena, f->session->path, name, option, f->err);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Where the name of "NAME=1x3" or "NAME:1,3" ends: at the last '=', else ':'. */
static const char *name_end(const char *word) {
    const char *end = strrchr(word, '=');
    return end ? end : strrchr(word, ':');
}

static bool parse_dims(const char *text, int64_t *dims, uint32_t *rank, uint32_t most) {
    bool bracket = *text == '[' || *text == '(';
    char close = *text == '(' ? ')' : ']';
    text += bracket;
    *rank = 0;
    while (*text && !(bracket && *text == close)) {
        char *end;
        if (*text < '0' || *text > '9' || *rank == most) return false;
        dims[(*rank)++] = strtoll(text, &end, 10);
        if (dims[*rank - 1] < 0 || dims[*rank - 1] == INT64_MAX) return false;
        text = end;
        if (*text == 'x' || *text == ',')
            text += 1 + (text[1] == ' ');
        else if (*text && !(bracket && *text == close))
            return false;
    }
    return !bracket || (text[0] == close && !text[1]);
}

static bool same_as_declared(const DemiPlanIo *io, const int64_t *dims, uint32_t rank) {
    bool same = !io->has_rank || io->rank == rank;
    for (uint32_t i = 0; same && io->has_rank && i < rank; i++)
        same = io->dims[i] < 0 || io->dims[i] == dims[i];
    return same;
}

static bool take_shape(Finder *f, const char *word) {
    enum { MOST_RANK = 64 };
    Session *s = f->session;
    const char *end = name_end(word);
    int64_t dims[MOST_RANK];
    uint32_t rank = 0;
    if (!end || !parse_dims(end + 1, dims, &rank, MOST_RANK)) {
        err_set(f->err, ERR_USAGE, "'%s' is not a value of '--shape'", word);
        err_hint(f->err, "use --shape NAME=1x3x224x224");
        return false;
    }
    const char *name = arena_copy(f->arena, word, (size_t)(end - word));
    size_t i = session_input(s, name);
    if (i == s->input_count) return unknown_input(f, "shape", name);
    if (!same_as_declared(&s->inputs[i], dims, rank)) {
        err_set(f->err, ERR_USAGE, "'--shape' does not fit the model");
        err_expected(f->err, "%s", value_io_text(f->arena, &s->inputs[i]));
        err_actual(f->err, "%s", end + 1);
        err_file(f->err, s->path);
        return blame_input(f, i);
    }
    s->inputs[i].has_rank = true;
    s->inputs[i].rank = rank;
    s->inputs[i].dims = arena_copy(f->arena, dims, rank * sizeof *dims);
    input_sizes_bind_shape(&s->sizes, i, &s->declared[i], dims, rank);
    return true;
}

/* What is known of sizes by now, into the inputs that have no value yet. */
static void apply_sizes(Session *s) {
    for (size_t i = 0; i < s->input_count; i++)
        if (!s->given[i] && s->declared[i].has_rank)
            s->inputs[i].dims = input_sizes_dims(&s->sizes, i, &s->declared[i]);
}

static bool take_shapes(Finder *f) {
    for (size_t i = 0; i < f->options->shape_count; i++)
        if (!take_shape(f, f->options->shapes[i])) return false;
    apply_sizes(f->session);
    return true;
}

static bool no_such_size(Finder *f, const char *name) {
    Session *s = f->session;
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < s->sizes.items.count; i++)
        nearest_name_try(&nearest, s->sizes.items.items[i].name);
    const char *names = input_sizes_names(&s->sizes);
    err_set(f->err, ERR_USAGE, "no input has the dynamic size '%s' of '--dim'", name);
    err_file(f->err, s->path);
    if (nearest.best && nearest.best[0])
        err_hint(f->err, "did you mean '%s'? the dynamic sizes are: %s", nearest.best, names);
    else if (names[0])
        err_hint(f->err, "the dynamic sizes are: %s", names);
    else
        err_hint(f->err, "the inputs are: %s", session_list(f->arena, s->declared, s->input_count));
    return false;
}

static bool take_dim(Finder *f, const char *word) {
    const char *end = name_end(word);
    int64_t size;
    uint32_t rank;
    if (!end || !parse_dims(end + 1, &size, &rank, 1) || rank != 1) {
        err_set(f->err, ERR_USAGE, "'%s' is not a value of '--dim'", word);
        err_hint(f->err, "use --dim NAME=N");
        return false;
    }
    const char *name = arena_copy(f->arena, word, (size_t)(end - word));
    return input_sizes_bind(&f->session->sizes, name, size) || no_such_size(f, name);
}

static bool take_dims(Finder *f) {
    for (size_t i = 0; i < f->options->dim_count; i++)
        if (!take_dim(f, f->options->dims[i])) return false;
    apply_sizes(f->session);
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool take_file(Finder *f, size_t i, const char *path) {
    return session_read_input(f->session, f->arena, i, path, f->err);
}

/* Names and paths may hold '=': the name is the one that is an input's. */
static bool take_input(Finder *f, const char *word) {
    Session *s = f->session;
    const char *first = strchr(word, '=');
    for (const char *end = first; end; end = strchr(end + 1, '='))
        for (size_t i = 0; i < s->input_count; i++)
            if (strlen(s->inputs[i].name) == (size_t)(end - word) &&
                memcmp(s->inputs[i].name, word, (size_t)(end - word)) == 0)
                return take_file(f, i, end + 1);
    if (value_is_archive(f->arena, word))
        return session_read_archive(s, f->arena, word, false, f->err);
    if (first) return unknown_input(f, "input", arena_copy(f->arena, word, (size_t)(first - word)));
    err_set(f->err, ERR_USAGE, "'%s' is not a value of '--input'", word);
    err_hint(f->err, "use --input NAME=FILE, or --input FILE.npz");
    return false;
}

static bool take_files(Finder *f) {
    for (size_t i = 0; i < f->options->file_count; i++)
        if (!take_input(f, f->options->files[i])) return false;
    return true;
}

/* Some rows of a value. */
static DemiData part_of(Arena *arena, const DemiData *value, NpyRows rows) {
    DemiData part = *value;
    const uint64_t each = value_bytes(value) / (uint64_t)value->dims[0];
    int64_t *dims = arena_copy(arena, value->dims, value->rank * sizeof *value->dims);
    dims[0] = (int64_t)rows.count;
    part.dims = dims;
    part.data = (const char *)value->data + rows.first * each;
    return part;
}

/* A value of the caller's, borrowed. */
static bool take_value(Finder *f, const DemiInputValue *row, NpyRows rows) {
    Session *s = f->session;
    size_t i = session_input(s, row->name);
    if (i == s->input_count) return unknown_input(f, NULL, row->name);
    if (s->given[i]) return true;
    s->values[i] = rows.count ? part_of(f->arena, row->value, rows) : *row->value;
    if (!value_check(f->arena, &s->values[i], &s->inputs[i], f->err)) return blame_input(f, i);
    session_take_value(s, i);
    return true;
}

static bool take_values(Finder *f, const SessionSet *set) {
    for (size_t i = 0; set->values && i < f->options->value_count; i++)
        if (f->options->values[i].set == *set->values &&
            !take_value(f, &f->options->values[i], set->rows))
            return false;
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* A bound that is a size has it now; one of a size that nobody knows leaves what is always right.
 */
static InputUse settled_use(const Session *s, size_t i) {
    InputUse use = s->uses[i];
    int64_t size = use.high_dim ? input_sizes_of(&s->sizes, use.high_dim) : -1;
    if (!use.high_dim) return use;
    int64_t high = size > use.less ? size - use.less : 0;
    if (size >= 0 && high < use.high) use.high = high;
    if (size < 0 && use.high == INT64_MAX) {
        if (use.kind != INPUT_ASCENDING) use.kind = INPUT_FILL;
        use.fill = use.less ? 0 : 1;
    }
    use.high_dim = NULL;
    return use;
}

static bool make_random(Finder *f, const bool *made, uint64_t seed) {
    Session *s = f->session;
    for (size_t i = 0; i < s->input_count; i++) {
        if (!made[i]) continue;
        s->given[i] = false;
        if (s->declared[i].has_rank)
            s->inputs[i].dims = input_sizes_dims(&s->sizes, i, &s->declared[i]);
        RandomInput input = {&s->inputs[i], settled_use(s, i), seed};
        if (!random_value(f->arena, &input, &s->values[i], f->err)) {
            err_file(f->err, s->path);
            return blame_input(f, i);
        }
        s->given[i] = true;
    }
    return true;
}

/* Sizes that are only tried are not to take long, or much memory. */
static bool is_moderate(const Session *s, const bool *made) {
    enum { MOST = 1 << 23 };
    for (size_t i = 0; i < s->input_count; i++) {
        const DemiPlanIo *io = &s->declared[i];
        const int64_t *dims = input_sizes_dims(&s->sizes, i, io);
        uint64_t count = 1;
        bool open = false;
        for (uint32_t k = 0; made[i] && io->has_rank && k < io->rank; k++) {
            open = open || io->dims[k] < 0;
            if (dims[k] >= 0 && !checked_mul(count, (uint64_t)dims[k], &count)) return false;
        }
        if (open && count > MOST) return false;
    }
    return true;
}

/* With sizes of its own: those of the set's variant, else the first choice that the model takes,
 * else the first choice, for the run to say what is wrong. */
static bool make_sized(Finder *f, const bool *made, uint64_t seed) {
    Session *s = f->session;
    bool open = input_sizes_assume(&s->sizes, s->attempt, s->set);
    if (open && s->set && !is_moderate(s, made))
        open = input_sizes_assume(&s->sizes, s->attempt, 0);
    if (!make_random(f, made, seed)) return false;
    if (!open || (s->set && session_probe(s))) return true;
    for (unsigned attempt = s->attempt; attempt < INPUT_SIZE_ATTEMPTS; attempt++) {
        Err ignored = {.code = ERR_NONE};
        Finder quiet = *f;
        quiet.err = &ignored; /* too large a choice is not taken */
        input_sizes_assume(&s->sizes, attempt, 0);
        if ((attempt && !is_moderate(s, made)) || !make_random(&quiet, made, seed) ||
            !session_probe(s))
            continue;
        s->attempt = attempt;
        return true;
    }
    input_sizes_assume(&s->sizes, s->attempt, 0);
    return make_random(f, made, seed);
}

static bool take_random(Finder *f, uint64_t seed) {
    Session *s = f->session;
    bool *made = ARENA_ARRAY(f->arena, bool, s->input_count + 1);
    for (size_t i = 0; i < s->input_count; i++) {
        made[i] = !s->given[i] && !s->inputs[i].has_default && !(s->ran && s->carried[i]);
        s->made = s->made || made[i];
    }
    return !s->made || make_sized(f, made, seed + s->set);
}

static bool find_missing(Finder *f) {
    Session *s = f->session;
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i] || s->inputs[i].has_default || s->inputs[i].optional ||
            (s->ran && s->carried[i]))
            continue;
        err_set(f->err, ERR_USAGE, "it has no value");
        err_file(f->err, s->path);
        err_operand(f->err, "input '%s'", s->inputs[i].name);
        err_hint(f->err, "use --input NAME=FILE, --data DIR, or --random SEED; the inputs are: %s",
                 session_list(f->arena, s->inputs, s->input_count));
        return false;
    }
    return true;
}

static bool take_set(Finder *f, const SessionSet *set) {
    if (!set->path) return true;
    return set->rows.count ? session_read_part(f->session, f->arena, set, f->err)
                           : session_read_set(f->session, f->arena, set->path, f->err);
}

bool session_find_inputs(Session *s, Arena *arena, const SessionSet *set, Err *err) {
    Finder f = {s, arena, &s->how->inputs, err};
    memset(s->given, 0, s->input_count * sizeof *s->given);
    memcpy(s->inputs, s->declared, s->input_count * sizeof *s->inputs);
    input_sizes_reset(&s->sizes);
    s->made = false;
    s->data = set->title;
    return take_dims(&f) && take_shapes(&f) && take_files(&f) && take_values(&f, set) &&
           take_set(&f, set) && (!set->random || take_random(&f, f.options->seed)) &&
           find_missing(&f);
}

bool session_take_inputs(Session *s, Arena *arena, const Session *from, Err *err) {
    Finder f = {s, arena, NULL, err};
    for (size_t i = 0; i < s->input_count; i++) {
        const size_t k = session_find_io(from->inputs, from->input_count, s->inputs[i].name, i);
        s->given[i] = k < from->input_count && from->given[k];
        if (!s->given[i]) continue;
        s->values[i] = value_convert(f.arena, &from->values[k], s->inputs[i].dtype);
        if (value_check(f.arena, &s->values[i], &s->inputs[i], err)) continue;
        err_file(err, s->path);
        return blame_input(&f, i);
    }
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i] || s->inputs[i].has_default || s->inputs[i].optional) continue;
        err_set(err, ERR_USAGE, "'%s' has no such input", from->path);
        err_file(err, s->path);
        return blame_input(&f, i);
    }
    return true;
}
